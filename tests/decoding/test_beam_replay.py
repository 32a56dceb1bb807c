"""The replay of beam search against a plain beam search, over random models that are tables."""

import functools
import zlib

import numpy as np
import pytest

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


def score(sentence, model, nodes):
    """A pass of the verifier."""
    sentence.place(nodes)
    for node in nodes:
        values = model(tuple(node.tokens))
        tokens = np.argsort(-values, kind="stable")[: 2 * sentence.rules.beam]
        node.best = values[tokens], tokens


def drafted(waiting, model, draw):
    """Some prefixes that are likely to come, and some that are not."""
    nodes, tops = [], list(waiting)
    for _ in range(draw.randint(4)):
        below = []
        for node in tops:
            order = np.argsort(-model(tuple(node.tokens)))[: draw.randint(1, WORDS)]
            below += [node.child(int(word)) for word in order if word not in (EOS, START)]
        tops = [node for node in below if draw.rand() < 0.7]
        nodes += [node for node in tops if node.best is None and node not in nodes]
    return nodes


def check_slots(sentence):
    """Each placed prefix has a slot of its own and sees those that it begins with, no others."""
    nodes, waiting = [], [sentence.root]
    while waiting:
        node = waiting.pop()
        nodes += [node] if node.slot >= 0 else []
        waiting += node.children.values()
    slots = [node.slot for node in nodes]
    assert len(set(slots)) == len(slots) and max(slots, default=0) < sentence.slots
    for node in nodes:
        assert node.seen == sum(1 << one.slot for one in [sentence.root, *node.path()])
    for node in sentence.live:
        assert (node.slot >= 0) == (node.best is not None)


def replay(model, rules, seed=None, forced=()):
    """The sentence at its end; drafts by ``seed``."""
    sentence = Sentence(rules, START, 3, forced)

    def forced_at(step):
        return forced[step] if step < min(len(forced), rules.max_len) else -1

    draw = np.random.RandomState(seed or 0)
    while not sentence.done:
        waiting = sentence.waiting()
        assert waiting and sentence.inside_prefix == (forced_at(sentence.steps) >= 0)
        for node in waiting:
            if node not in sentence.live:
                assert forced_at(node.depth - 1) == node.token
                assert node.parent in waiting or node.parent.best is not None
        nodes = waiting + (drafted(waiting, model, draw) if seed is not None else [])
        score(sentence, model, nodes)
        steps = sentence.steps
        sentence.advance()
        assert sentence.steps > steps or sentence.done or seed is not None
        if not sentence.done:
            check_slots(sentence)
            assert sentence.steps == len(sentence.live[-1].tokens)
            scores = [node.score for node in sentence.live]
            assert scores == sorted(scores, reverse=True)
    return sentence


def ended(sentence):
    return [(one.tokens, one.totals[-1]) for one in sentence.ended]


def test_a_step_is_done_once_the_rest_cannot_matter():
    """Two hypotheses, of which the first is scored and likelier than the second can be."""
    for most, decided in ((0.0, True), (0.9, True), (1.1, False)):
        sentence = Sentence(BeamRules(2, EOS, 9, most), START)
        sentence.place([sentence.root])
        sentence.root.best = np.float32([-0.1, -2.5]), np.array([5, 6])
        sentence.advance()
        first, second = sentence.live
        assert (first.score, second.score) == (np.float32(-0.1), np.float32(-2.5))
        sentence.place([first])
        first.best = np.float32([-0.2, -1.4, -9.0]), np.array([7, 8, EOS])
        sentence.advance()
        assert sentence.steps == 1 + decided
        assert [node.tokens for node in sentence.live] == (
            [[5, 7], [5, 8]] if decided else [[5], [6]]
        )
        assert sentence.waiting() == (sentence.live if decided else [second])
        assert sentence.passes == 2


@pytest.mark.parametrize(
    "max_len, forced", [(6, (5, 7)), (6, (5, EOS)), (6, (EOS,)), (1, (5, EOS))]
)
@pytest.mark.parametrize("beam", [2, 4])
def test_forced_tokens_lead_and_a_forced_end_is_the_end_of_all(beam, max_len, forced):
    rules = BeamRules(beam, EOS, max_len)
    model = functools.partial(follows, 4, max_len=max_len, forced=forced)
    sentence = replay(model, rules, forced=forced)
    hypotheses = ended(sentence)
    within = sum(token != EOS for token in forced[:max_len])
    # What is forced is scored with the start symbol, and is no draft.
    assert sentence.passes == sentence.steps - within and sentence.used == 0
    if max_len > 1 and EOS in forced:
        # Stock has beam copies of one hypothesis.
        own = sum(model(forced[:size])[word] for size, word in enumerate(forced))
        assert hypotheses == [(list(forced[:-1]), pytest.approx(float(own)))] * beam
    else:
        assert hypotheses == plain(model, rules)
        assert all(tokens[: len(forced)] == list(forced[:max_len]) for tokens, _ in hypotheses)


def test_no_token_and_no_number_are_distinguished():
    for value, broken in ((NOTHING, False), (float("nan"), True)):
        sentence = Sentence(BeamRules(2, EOS, 9), START, 3)
        sentence.root.best = np.float32([-1, -2]), np.array([5, 6])
        sentence.advance()
        for node in sentence.live:
            node.best = np.float32([value] * 4), np.array([4, 5, 6, 7])
        with pytest.raises(NoTokenError) as caught:
            sentence.advance()
        assert caught.value.args == (broken, 1, 3)


@pytest.mark.parametrize("reward", [0.0, 2.5])
@pytest.mark.parametrize("max_len", [0, 1, 3, 12])
@pytest.mark.parametrize("beam", [2, 3, WORDS - 2])
def test_is_beam_search_whatever_was_drafted(beam, max_len, reward):
    rules = BeamRules(beam, EOS, max_len, reward)
    passes = used = 0
    for seed in range(12):
        model = functools.partial(follows, seed, max_len=max_len, reward=reward)
        sentence, fewer = replay(model, rules), replay(model, rules, seed + 1)
        assert ended(sentence) == ended(fewer) == plain(model, rules)
        assert sentence.passes == sentence.steps == fewer.steps >= fewer.passes
        assert sentence.used == 0
        passes += sentence.passes - fewer.passes
        used += fewer.used
    assert max_len < 12 or (passes > 0 and used > 0)
