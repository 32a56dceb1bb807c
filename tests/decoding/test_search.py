"""Greedy search against a slow version: what a verification adds to the hypotheses."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toy_hypotheses import hypotheses_of

from fairseq_specdec.acceptance import Acceptance, AcceptanceRule
from fairseq_specdec.decoding import search
from fairseq_specdec.engine.draft import Draft
from fairseq_specdec.engine.scores import Scores

EOS, WORDS = 2, 9


class Scripted(AcceptanceRule):
    """Accepts these counts and adds these tokens, whatever the scores say."""

    def __init__(self, counts, bonus):
        self.verdict = Acceptance(torch.tensor(counts), torch.tensor(bonus))

    def accept(self, draft, scores):
        assert isinstance(draft, Draft) and isinstance(scores, Scores)
        return self.verdict


def log_probs(rows, width, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, width + 1, WORDS, generator=generator).log_softmax(-1)


def advance(rule, outputs, drafts, scores):
    hypotheses = hypotheses_of(outputs, 20)
    tokens = torch.tensor(drafts, dtype=torch.long).view(len(drafts), len(drafts[0]))
    draft = Draft(tokens, torch.full((len(drafts),), tokens.size(1)))
    scores = Scores(scores.clone(), normalised=True)
    step = search.advance(rule, hypotheses, draft, scores, EOS)
    return hypotheses, step


@given(st.integers(0, 10**6), st.integers(0, 4), st.integers(1, 4))
def test_rows_grow_by_accepted_tokens_and_the_bonus_token_up_to_the_end(seed, width, rows):
    generator = torch.Generator().manual_seed(seed)

    def draw(low, high, *shape):
        return torch.randint(low, high, shape, generator=generator).tolist()

    outputs = [draw(4, WORDS, *draw(0, 4, 1)) for _ in range(rows)]
    drafts, counts, bonus = draw(2, 6, rows, width), draw(0, width + 1, rows), draw(2, 6, rows)
    scores = log_probs(rows, width, seed)
    hypotheses, step = advance(Scripted(counts, bonus), outputs, drafts, scores)
    for row in range(rows):
        added = [*drafts[row][: counts[row]], bonus[row]]
        ended = EOS in added
        added = added[: added.index(EOS) + 1] if ended else added
        size, before = len(added), len(outputs[row])
        assert bool(step.done[row]) == ended and int(step.sizes[row]) == size
        assert int(step.accepted[row]) == min(counts[row], size)
        assert step.emitted[row, :size].tolist() == added
        known = hypotheses.tokens[row, : before + size + 1].tolist()
        assert known == [EOS, *outputs[row], *added]
        assert int(hypotheses.lengths[row]) == before + size
        own = [float(scores[row, i, token]) for i, token in enumerate(added)]
        assert hypotheses.scores[row, before : before + size].tolist() == own
        assert not bool(step.broken[row])
    assert hypotheses.lengths_cpu == [len(output) for output in outputs]  # the loop adds to these


@pytest.mark.parametrize("wrong", [math.nan, -math.inf])
def test_a_token_without_a_log_probability_is_reported(wrong):
    """Among those added, the last of them included; not after them."""
    for at, broken in ((0, True), (1, True), (2, False)):
        scores = log_probs(2, 2)
        scores[1, at] = wrong
        drafts = [[4, 5], [4, 5]]
        _, step = advance(Scripted([2, 1], [6, 6]), [[], [7]], drafts, scores)
        assert step.broken.tolist() == [False, broken]


@pytest.mark.parametrize("wrong", [math.nan, -math.inf])
def test_a_token_without_a_log_probability_is_reported_where_there_is_no_draft(wrong):
    scores = log_probs(2, 0)
    scores[1] = wrong
    _, step = advance(Scripted([0, 0], [6, 6]), [[], [7]], [[], []], scores)
    assert step.broken.tolist() == [False, True]


def test_an_end_behind_the_bonus_token_is_none():
    emitted = torch.tensor([[5, EOS, EOS], [5, 6, EOS], [EOS, 6, 7]])
    sizes, done = search.emitted_sizes(emitted, torch.tensor([0, 1, 2]), EOS)
    assert sizes.tolist() == [1, 2, 1] and done.tolist() == [False, False, True]


def test_sizes_are_counted_on_the_device_of_the_tokens():
    """ "meta" has shapes and no numbers, and mixes with no other device."""
    there = torch.zeros(2, 4, dtype=torch.long, device="meta")
    assert [tensor.device.type for tensor in search.emitted_sizes(there, there[:, 0], EOS)] == [
        "meta"
    ] * 2
