"""The rest of the source as a draft for a beam: when it is made, and how far."""

import numpy as np
import pytest

from fairseq_specdec.decoding.beam.lookahead import Lookahead, Reach
from fairseq_specdec.decoding.beam.replay import BeamRules, Sentence

EOS, START = 2, 0
SOURCE = list(range(10, 30))
BEAM = 2


def sentence(max_len=40):
    return Sentence(BeamRules(BEAM, EOS, max_len), START)


def paths(nodes):
    return [[one.token for one in node.path()] for node in nodes]


def one_pass(look, sentence, after):
    """Draft, score as ``after`` says (the likeliest token of each prefix), and go on."""
    nodes = look.draft(sentence)
    for node in nodes:
        token = after([one.token for one in node.path()])
        node.best = np.float32([-0.1, -4.0, -6.0]), np.array([token, 90, 91])
    sentence.tree.place(nodes)
    look.learn(nodes)
    sentence.advance()
    return paths(nodes)


def copy(tokens):
    return SOURCE[len(tokens)] if len(tokens) < len(SOURCE) else EOS


def test_a_few_tokens_are_tried_first_then_the_rest_of_the_source():
    look, begun = Lookahead(SOURCE, Reach(6, 40, 0.95, 3)), sentence()
    assert one_pass(look, begun, copy) == [SOURCE[:size] for size in range(4)]
    second = one_pass(look, begun, copy)
    rest = [SOURCE[:size] for size in range(4, len(SOURCE) + 1)]
    assert [tokens for tokens in second if tokens == SOURCE[: len(tokens)]] == rest
    # Other hypotheses are followed as far as was tried first, and then further.
    assert max(map(len, (t for t in second if t != SOURCE[: len(t)]))) <= 1 + 3
    step = begun.step
    third = one_pass(look, begun, copy)
    assert third and max(map(len, third)) == step + 6


@pytest.mark.parametrize(
    "right, drafts",
    [
        ([1, 1, 1, 1], True),
        ([0, 1, 1, 1], True),  # 0, 0.3, 0.51, 0.657
        ([1, 1, 1, 0], True),  # 1, 1, 1, 0.7
        ([1, 1, 0, 0], False),  # 1, 1, 0.7, 0.49
        ([0, 0, 0, 0], False),
    ],
)
def test_what_was_tried_first_decides(right, drafts):
    """All tokens of the first draft but its last one are judged."""
    look, begun = Lookahead(SOURCE, Reach(6, 40, 0.6, 4)), sentence()
    first = one_pass(look, begun, lambda tokens: copy(tokens) if right[len(tokens) % 4] else 80)
    assert len(first) == 5
    assert (len(look.draft(begun)) > len(begun.waiting())) is drafts


def test_the_rest_ends_with_the_source_the_length_and_the_room():
    def longest(reach, max_len=40):
        look, begun = Lookahead(SOURCE, reach), sentence(max_len)
        one_pass(look, begun, copy)
        second = one_pass(look, begun, copy)
        return len(second), max(map(len, second))

    assert longest(Reach(2, 40, 0.6, 2))[1] == len(SOURCE)
    assert longest(Reach(2, 40, 0.6, 2), max_len=9)[1] == 9
    assert longest(Reach(2, 5, 0.6, 2))[0] == 5 * BEAM


def test_the_rest_ends_where_the_end_is_expected():
    look, begun = Lookahead([10, 11, 50, 13, 14], Reach(1, 40, 0.6, 2)), sentence()
    rest = [[10], [10, 11], [10, 11, 50], [10, 11, 50, 13], [10, 11, 50, 13, 14]]
    assert paths(look._rest(begun, [])) == rest
    like = begun.tree.root.child(99).child(50)
    like.best = np.float32([-0.1]), np.array([EOS])
    look.learn([like])
    assert paths(look._rest(begun, [])) == rest[:3]


def test_without_a_condition_no_rest_is_drafted():
    look, begun = Lookahead(SOURCE, Reach(3, 40)), sentence()
    assert max(map(len, one_pass(look, begun, copy))) == 3
    assert max(map(len, paths(look.draft(begun)))) == begun.step + 3


def plain_growth(look, live, beam, count):
    """All candidates, sorted; what ``_grown`` finds without looking at all of them."""
    every = [
        (value + score, node, token)
        for node, score in live
        for value, token in look._predicted(node)[:count]
    ]
    every.sort(key=lambda one: -one[0])
    first = every[:count]
    going = [(node, token, score) for score, node, token in first if token != EOS]
    return going[:beam], sum(token == EOS for _, _, token in first[:beam])


def test_growth_is_that_of_all_candidates():
    words = np.random.default_rng(5)
    ended = 0
    for _ in range(200):
        beam = int(words.integers(1, 6))
        look, root = Lookahead(SOURCE, Reach(3, 9)), sentence().tree.root
        live = []
        for number in range(int(words.integers(1, beam + 1))):
            node = root.child(number)
            # Few different values, so that there are ties.
            values = -np.sort(words.integers(0, 9, 2 * beam)).astype(np.float32)
            if words.random() < 0.8:
                node.best = values, words.permutation(30)[: 2 * beam]
            live.append((node, -float(words.integers(0, 5))))
        growth = look._grown(live, beam, EOS, 2 * beam)
        assert growth == plain_growth(look, live, beam, 2 * beam)
        ended += growth[1]
    assert ended > 20


def plain_copy(source, suffix, depth):
    """Every place of the source compared."""
    best = (-1, 0), None
    for at in range(len(source)):
        size = 0
        while size < min(len(suffix), at) and source[at - 1 - size] == suffix[size]:
            size += 1
        size += size == at == depth
        if (size, -abs(at - depth)) > best[0]:
            best = (size, -abs(at - depth)), source[at]
    return best[1]


def test_the_place_in_the_source_is_that_of_all_places():
    words = np.random.default_rng(6)
    longer = 0
    for _ in range(3000):
        source = words.integers(10, 14, int(words.integers(0, 9))).tolist()
        node = sentence().tree.root
        for token in words.integers(10, 15, int(words.integers(0, 8))).tolist():
            node = node.child(token)
        suffix = [one.token for one in node.path()[::-1]][:4]
        suffix += [START] * (len(suffix) < 4)
        longer += node.depth > len(source)
        assert Lookahead(source, Reach(3, 9))._copied(node) == plain_copy(
            source, suffix, node.depth
        )
    assert longer > 300
