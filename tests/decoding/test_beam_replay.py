"""The replay of beam search against a plain beam search, over random models that are tables."""

import functools
import zlib

import numpy as np
import pytest

from fairseq_specdec.decoding.beam.prefix_tree import Node, PrefixTree, visible
from fairseq_specdec.decoding.beam.replay import BeamRules, NoTokenError, Sentence

EOS, START, UNK = 2, 0, 3
WORDS = 9
NOTHING = float("-inf")


@functools.cache
def follows(seed, prefix, max_len, reward=0.0, forced=()):
    """float32 [V], log-probabilities after a prefix, constraints applied."""
    draw = np.random.RandomState(zlib.crc32(repr((seed, prefix)).encode()))
    logits = 1.5 * draw.randn(WORDS)
    logits[EOS] += 0.4 * len(prefix)
    values = (logits - np.log(np.exp(logits).sum())).astype(np.float32)
    values[UNK] += np.float32(reward)
    values[START] = NOTHING
    only = EOS if len(prefix) >= max_len else None
    if len(prefix) < min(len(forced), max_len):
        only = forced[len(prefix)]
    if only is not None and only >= 0:
        values[np.arange(WORDS) != only] = NOTHING
    return values


def plain(model, rules):
    """[(tokens, score)] as fairseq's BeamSearch.step and finalize_hypos give them."""
    live, ended = [((), np.float32(0))], []
    for step in range(rules.max_len + 1):
        candidates = [
            (score + value, tokens, word)
            for tokens, score in live
            for word, value in enumerate(model(tokens))
            if value > NOTHING
        ]
        candidates.sort(key=lambda one: -one[0])
        best = candidates[: 2 * rules.beam]
        ending = [(tokens, s) for s, tokens, word in best[: rules.beam] if word == EOS]
        ended += ending
        if len(ended) >= rules.beam or (ending and step == rules.max_len):
            break
        live = [((*tokens, word), s) for s, tokens, word in best if word != EOS][: rules.beam]
    return [(list(tokens), float(score)) for tokens, score in ended[: rules.beam]]


def tokens_of(node):
    return [one.token for one in node.path()]


def likeliest(model, node, count):
    values = model(tuple(tokens_of(node)))
    tokens = np.argsort(-values, kind="stable")[:count]
    return values[tokens], tokens


def score(sentence, model, nodes):
    """A pass of the verifier."""
    sentence.tree.place(nodes)
    for node in nodes:
        node.best = likeliest(model, node, sentence.rules.candidates)


def common(paths):
    """The longest beginning that all have."""
    columns = list(zip(*paths))
    same = [len(set(column)) == 1 for column in columns]
    return paths[0][: same.index(False) if False in same else len(same)]


def drafted(waiting, model, draw):
    """Some prefixes that are likely to come, and some that are not."""
    nodes, tops = [], list(waiting)
    for _ in range(draw.randint(4)):
        below = []
        for node in tops:
            order = np.argsort(-model(tuple(tokens_of(node))))[: draw.randint(1, WORDS)]
            below += [node.child(int(word)) for word in order if word not in (EOS, START)]
        tops = [node for node in below if draw.rand() < 0.7]
        nodes += [node for node in tops if node.best is None and node not in nodes]
    return nodes


def check_slots(sentence):
    """Each placed prefix has a slot of its own and sees those that it begins with, no others."""
    nodes, waiting = [], [sentence.tree.root]
    while waiting:
        node = waiting.pop()
        nodes += [node] if node.slot >= 0 else []
        waiting += node.children.values()
    slots = [node.slot for node in nodes]
    assert len(set(slots)) == len(slots) and max(slots, default=0) < sentence.tree.slots
    for node in nodes:
        assert node.seen == sum(1 << one.slot for one in [sentence.tree.root, *node.path()])
    for node in sentence.live:
        assert (node.slot >= 0) == (node.best is not None)


def replay(model, rules, seed=None, forced=()):
    """(the sentence at its end, how many prefixes were scored); drafts by ``seed``."""
    sentence = Sentence(rules, START, 3, forced)

    def forced_at(step):
        return forced[step] if step < min(len(forced), rules.max_len) else -1

    draw, agreed_before, scored, came, hoped = np.random.RandomState(seed or 0), [], 0, 0, set()
    while not sentence.done:
        waiting = sentence.waiting()
        assert waiting and sentence.inside_prefix == (forced_at(sentence.step) >= 0)
        for node in waiting:
            if node not in sentence.live:
                assert forced_at(node.depth - 1) == node.token
                assert node.parent in waiting or node.parent.best is not None
        nodes = waiting + (drafted(waiting, model, draw) if seed is not None else [])
        hoped |= {tuple(tokens_of(node)) for node in nodes[len(waiting) :]}
        score(sentence, model, nodes)
        scored += len(nodes)
        steps, used = sentence.steps, sentence.used
        sentence.advance()
        assert sentence.steps > steps or sentence.done or seed is not None
        came += sentence.used - used
        agreed = sentence.agreed()
        assert agreed[: len(agreed_before)] == agreed_before
        agreed_before = agreed
        ended = [tokens_of(one.node) for one in sentence.ended]
        paths = ended if sentence.done else ended + list(map(tokens_of, sentence.live))
        assert common([agreed_before, *paths]) == agreed_before
        if not ended:
            assert agreed_before == common(paths)
        if not sentence.done:
            check_slots(sentence)
            assert sentence.step == sentence.steps == len(paths[-1])
            scores = [node.score for node in sentence.live]
            assert scores == sorted(scores, reverse=True)
    assert 0 <= came <= len(hoped)
    return sentence, scored


def ended(sentence):
    return [(tokens_of(one.node), one.score) for one in sentence.ended]


def test_a_prefix_is_its_last_token_and_what_is_before():
    tree = PrefixTree(START)
    node = tree.root.child(5).child(6)
    assert (tree.root.token, tree.root.parent, tree.root.path()) == (START, None, [])
    assert (tree.root.depth, node.depth, tokens_of(node)) == (0, 2, [5, 6])
    assert tree.root.child(5).child(6) is node and node.parent.child(7) is not node
    assert (node.slot, node.seen, node.best, node.score, node.children) == (-1, 0, None, 0.0, {})


def test_slots_of_dropped_prefixes_are_given_again_lowest_first():
    tree = PrefixTree(START)
    kept, dropped = tree.root.child(5), tree.root.child(6)
    below = dropped.child(7)
    later, unplaced = kept.child(8), kept.child(4)
    tree.place([tree.root, dropped, below, kept, later])
    assert [node.slot for node in (tree.root, dropped, below, kept, later)] == [0, 1, 2, 3, 4]
    assert tree.slots == 5 and later.seen == 0b11001
    tree.follow([tree.root], [kept])
    assert (dropped.slot, below.slot, kept.slot) == (-1, -1, 3)
    assert tree.root.children == {5: kept}
    tree.place([kept.child(9)])
    assert kept.child(9).slot == 1 and kept.child(9).seen == 0b1011 and tree.slots == 5
    tree.place([unplaced, kept.child(10)])
    assert (unplaced.slot, kept.child(10).slot, tree.slots) == (2, 5, 6)


def test_prefixes_that_lead_nowhere_are_forgotten_up_to_the_fork():
    tree = PrefixTree(START)
    fork = tree.root.child(5)
    short, long = fork.child(6).child(7), fork.child(8).child(9)
    tree.place([tree.root, fork, short.parent, short, long.parent, long])
    tree.follow([short, long], [long.child(4)])
    assert short.slot == short.parent.slot == -1 and fork.children == {8: long.parent}
    assert (tree.root.slot, fork.slot, long.slot) == (0, 1, 5)
    # The root stays, whatever leads from it.
    tree.follow([long], [])
    assert not tree.root.children and tree.root.slot == 0


@pytest.mark.parametrize("upto", [9, 16, 17, 24])
def test_what_the_tokens_of_a_block_see(upto):
    first, second = Node(5, None), Node(6, None)
    first.seen, second.seen = 0b1_0000_0101, 0b10
    seen = visible([[first, second], [second]], 2, upto)
    assert seen.dtype == bool and seen.shape == (2, 2, upto)
    places = [[np.flatnonzero(entry).tolist() for entry in row] for row in seen]
    assert places == [[[0, 2, 8], [1]], [[1], [0]]]


def test_a_step_is_done_once_the_rest_cannot_matter():
    """Two hypotheses, of which the first is scored and likelier than the second can be."""
    for most, decided in ((0.0, True), (0.9, True), (1.1, False)):
        sentence = Sentence(BeamRules(2, EOS, 9, most), START)
        assert (sentence.row, sentence.rules.candidates) == (0, 4)
        sentence.tree.place([sentence.tree.root])
        sentence.tree.root.best = np.float32([-0.1, -2.5]), np.array([5, 6])
        sentence.advance()
        first, second = sentence.live
        assert (first.score, second.score) == (np.float32(-0.1), np.float32(-2.5))
        sentence.tree.place([first])
        first.best = np.float32([-0.2, -1.4, -9.0]), np.array([7, 8, EOS])
        sentence.advance()
        assert sentence.steps == 1 + decided
        assert [tokens_of(node) for node in sentence.live] == (
            [[5, 7], [5, 8]] if decided else [[5], [6]]
        )
        assert sentence.waiting() == (sentence.live if decided else [second])
        assert sentence.progress() == (False, 2, 1 + decided, 0, 0, 0)


def test_drafts_are_not_agreed_on():
    sentence = Sentence(BeamRules(2, EOS, 9), START)
    sentence.tree.root.best = np.float32([-1]), np.array([5])
    sentence.tree.root.child(5).child(7)
    sentence.advance()
    assert [tokens_of(node) for node in sentence.live] == [[5]] == [sentence.agreed()]


def test_of_equal_candidates_those_of_the_better_hypothesis_come_first():
    sentence = Sentence(BeamRules(2, EOS, 9), START)
    sentence.tree.root.best = np.float32([-1, -1, -1]), np.array([6, 5, 4])
    sentence.advance()
    assert [node.token for node in sentence.live] == [6, 5]
    for node in sentence.live:
        node.best = np.float32([-1, -1]), np.array([8, 7])
    sentence.advance()
    assert [tokens_of(node) for node in sentence.live] == [[6, 8], [6, 7]]
    # More of them than an unstable order keeps by chance.
    many = np.random.RandomState(1).permutation(60) + 3
    sentence = Sentence(BeamRules(20, EOS, 9), START)
    sentence.tree.root.best = np.full(60, -1, dtype=np.float32), many
    sentence.advance()
    assert [node.token for node in sentence.live] == many[:20].tolist()


@pytest.mark.parametrize(
    "max_len, forced", [(6, (5, 7)), (6, (5, EOS)), (6, (EOS,)), (1, (5, EOS))]
)
@pytest.mark.parametrize("beam", [2, 4])
def test_forced_tokens_lead_and_a_forced_end_is_the_end_of_all(beam, max_len, forced):
    rules = BeamRules(beam, EOS, max_len)
    model = functools.partial(follows, 4, max_len=max_len, forced=forced)
    sentence, scored = replay(model, rules, forced=forced)
    hypotheses = ended(sentence)
    within = sum(token != EOS for token in forced[:max_len])
    # What is forced is scored with the start symbol, and is no draft.
    assert sentence.passes == sentence.steps - within and sentence.used == 0
    assert scored > within
    if max_len > 1 and EOS in forced:
        # Stock has beam copies of one hypothesis.
        own = sum(model(forced[:size])[word] for size, word in enumerate(forced))
        assert hypotheses == [(list(forced[:-1]), pytest.approx(float(own)))] * beam
    else:
        assert hypotheses == plain(model, rules)
        assert all(tokens[: len(forced)] == list(forced[:max_len]) for tokens, _ in hypotheses)


def test_what_is_forced_after_a_free_token_follows_every_hypothesis():
    rules, forced = BeamRules(3, EOS, 9), (5, -1, 6, 7, -1, 8)
    model = functools.partial(follows, 4, max_len=9, forced=forced)
    sentence, _ = replay(model, rules, forced=forced)
    assert ended(sentence) == plain(model, rules)
    assert sentence.passes == sentence.steps - 4
    assert ended(replay(model, rules, 3, forced)[0]) == plain(model, rules)


def test_no_token_and_no_number_are_distinguished():
    for value, broken in ((NOTHING, False), (float("nan"), True)):
        sentence = Sentence(BeamRules(2, EOS, 9), START, 3)
        sentence.tree.root.best = np.float32([-1, -2]), np.array([5, 6])
        sentence.advance()
        for node in sentence.live:
            node.best = np.float32([value] * 4), np.array([4, 5, 6, 7])
        with pytest.raises(NoTokenError) as caught:
            sentence.advance()
        assert (caught.value.broken, caught.value.step, caught.value.row) == (broken, 1, 3)
        assert caught.value.args == (broken, 1, 3)


@pytest.mark.parametrize("reward", [0.0, 2.5])
@pytest.mark.parametrize("max_len", [0, 1, 3, 12])
@pytest.mark.parametrize("beam", [2, 3, WORDS - 2])
def test_is_beam_search_whatever_was_drafted(beam, max_len, reward):
    rules = BeamRules(beam, EOS, max_len, reward)
    passes = used = 0
    for seed in range(12):
        model = functools.partial(follows, seed, max_len=max_len, reward=reward)
        expected = plain(model, rules)
        sentence, _ = replay(model, rules)
        assert ended(sentence) == expected
        assert sentence.passes == sentence.steps == sentence.progress().passes
        assert sentence.used == 0
        fewer, _ = replay(model, rules, seed + 1)
        assert ended(fewer) == expected and fewer.steps == sentence.steps
        assert fewer.passes <= sentence.passes
        passes += sentence.passes - fewer.passes
        used += fewer.used
    assert max_len < 12 or (passes > 0 and used > 0)
