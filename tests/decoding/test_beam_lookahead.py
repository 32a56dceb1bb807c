"""What a beam search drafts: copies of the source, and what followed a prefix with the same end."""

import numpy as np
import pytest

from fairseq_specdec.decoding.beam.lookahead import Lookahead, Reach
from fairseq_specdec.decoding.beam.replay import BeamRules, Sentence

EOS, START, BEAM = 2, 0, 2
FAR = Reach(20, 20)
SOURCE = list(range(10, 30))


def sentence_of(max_len=40):
    return Sentence(BeamRules(BEAM, EOS, max_len), START)


def paths(nodes):
    return [node.tokens for node in nodes]


def give(node, *pairs):
    """Score a node: (token, log-probability) of what may follow."""
    node.best = np.float32([value for _, value in pairs]), np.array([token for token, _ in pairs])
    return node


def walk(sentence, tokens):
    node = sentence.root
    for token in tokens:
        node = node.child(token)
    return node


def drafted(source, tokens, reach=FAR, max_len=30):
    """The longest draft after some tokens. The best hypothesis has these and is not scored; the
    second one, where there are tokens, is far below it and ends with token 99."""
    sentence = sentence_of(max_len)
    for at, token in enumerate(tokens):
        give(sentence.live[0], (token, -0.1), *[(99, -9.0)] * (at == len(tokens) - 1))
        sentence.advance()
    nodes = Lookahead(source, reach).draft(sentence)
    waiting = sentence.waiting()
    assert nodes[: len(waiting)] == waiting
    after = [one[len(tokens) :] for one in paths(nodes) if one[: len(tokens)] == list(tokens)]
    return max(after, key=len)


@pytest.mark.parametrize(
    "source, tokens, copied",
    [
        ([10, 11, 12, 13], [10, 50, 12], [13]),  # one token was exchanged
        ([10, 11, 12, 13, 14], [10, 50, 51, 12, 13], [14]),
        # Two places end the same: the one nearest to the output's own length.
        ([7, 20, 8, 9, 7, 21, 5], [50, 51, 52, 7], [21, 5]),
        ([7, 20, 7, 21], [50, 7], [20, 7]),  # of two as near the first
        # A longer equal end is worth more than a near one.
        ([3, 7, 20, 4, 4, 4, 5, 7, 21], [50, 51, 50, 51, 50, 51, 3, 7], [20, 4, 4, 4, 5, 7, 21]),
        # No more than the last four tokens are compared.
        ([9, 1, 1, 1, 1, 8, 1, 1, 1, 1, 7], [50, 1, 1, 1, 1], [8]),
        # Nothing is alike: the place of the same number.
        ([10, 11, 12, 13], [50, 51], [12, 13]),
        ([10, 11], [10, 11], [11]),  # at the end of the source: the last place
        ([], [5], []),
    ],
    ids=str,
)
def test_the_source_is_copied_from_where_it_is_most_alike(source, tokens, copied):
    assert drafted(source, tokens)[: len(copied) or None] == copied


@pytest.mark.parametrize("steps, beams, max_len, tokens, size", [
    (0, 20, 30, 0, 0), (1, 20, 30, 0, 1), (3, 20, 30, 0, 3),
    # Beam 2: the root, and a prefix a step; those of a step that is too much are left out.
    (20, 1, 30, 0, 1), (20, 2, 30, 0, 3), (20, 3, 30, 0, 5),
    (20, 20, 1, 0, 1), (20, 20, 4, 0, 4), (20, 20, 4, 2, 2),
])  # fmt: skip
def test_steps_prefixes_and_length_are_limited(steps, beams, max_len, tokens, size):
    draft = drafted(SOURCE, SOURCE[:tokens], Reach(steps, beams), max_len=max_len)
    assert draft == SOURCE[tokens : tokens + size]


def test_the_longest_like_end_is_asked_and_of_equals_the_nearest():
    look, sentence = Lookahead([], Reach(1, 9)), sentence_of()
    prefixes = {(5, 7): 20, (6, 7): 21, (1, 2, 3, 6, 7): 22, (3, 6, 7): 23, (9,): 24, (1, 1, 9): 25}
    prefixes[9, 9, 5, 2, 3, 6, 7] = 26
    for tokens, word in prefixes.items():
        look.learn(sentence, [give(walk(sentence, tokens), (word, -0.1))])

    def next_of(*tokens):
        sentence.live = [walk(sentence, tokens)]
        return [one[-1] for one in paths(look.draft(sentence)[1:])]

    assert next_of(8, 5, 7) == [20]
    assert next_of(8, 6, 7) == [23] and next_of(8, 8, 6, 7) == [22]  # three end with 6 7
    assert next_of(4, 4, 3, 6, 7) == [22] and next_of(4, 3, 6, 7) == [22]
    assert next_of(5, 2, 3, 6, 7) == [22]  # only the last four tokens are compared
    assert next_of(7) == [20]  # of equally near ones the first
    assert next_of(4, 4, 7) == [23]  # one token alike
    assert next_of(8, 8, 8, 9) == [25] and next_of(8, 9) == [24]
    assert next_of(8, 4) == []


# ---- the rest of the source ----------------------------------------------------------------------


def one_pass(look, sentence, after):
    """Draft, score as ``after`` says (the likeliest token of each prefix), and go on."""
    nodes = look.draft(sentence)
    for node in nodes:
        give(node, (after(node.tokens), -0.1), (90, -4.0), (91, -6.0))
    sentence.place(nodes)
    look.learn(sentence, nodes)
    sentence.advance()
    return paths(nodes)


def copy(tokens):
    return SOURCE[len(tokens)] if len(tokens) < len(SOURCE) else EOS


def test_a_few_tokens_are_tried_first_then_the_rest_of_the_source():
    look, begun = Lookahead(SOURCE, Reach(6, 40, 0.95, 3)), sentence_of()
    assert one_pass(look, begun, copy) == [SOURCE[:size] for size in range(4)]
    second = one_pass(look, begun, copy)
    rest = [SOURCE[:size] for size in range(4, len(SOURCE) + 1)]
    assert [tokens for tokens in second if tokens == SOURCE[: len(tokens)]] == rest
    # Other hypotheses are followed as far as was tried first, and then further.
    assert max(map(len, (t for t in second if t != SOURCE[: len(t)]))) <= 1 + 3
    step = begun.steps
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
    look, begun = Lookahead(SOURCE, Reach(6, 40, 0.6, 4)), sentence_of()
    first = one_pass(look, begun, lambda tokens: copy(tokens) if right[len(tokens) % 4] else 80)
    assert len(first) == 5
    assert (len(look.draft(begun)) > len(begun.waiting())) is drafts


@pytest.mark.parametrize("reach, max_len, nodes, longest", [
    (Reach(2, 40, 0.6, 2), 40, None, len(SOURCE)),
    (Reach(2, 40, 0.6, 2), 9, None, 9),
    (Reach(2, 5, 0.6, 2), 40, 5 * BEAM, None),
])  # fmt: skip
def test_the_rest_ends_with_the_source_the_length_and_the_room(reach, max_len, nodes, longest):
    look, begun = Lookahead(SOURCE, reach), sentence_of(max_len)
    one_pass(look, begun, copy)
    second = one_pass(look, begun, copy)
    assert nodes in (None, len(second)) and longest in (None, max(map(len, second)))
