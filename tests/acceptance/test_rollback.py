"""The rollback rule against Kim et al. 2023, Algorithm 1, lines 10 to 16, token by token."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from judging import judge

from fairseq_specdec.acceptance import ExactRule, RollbackRule
from fairseq_specdec.acceptance.sampling import Sampler

INFINITY = float("inf")


def random_block(seed, rows=3, width=4, vocabulary=6):
    generator = torch.Generator().manual_seed(seed)
    log_probs = torch.randn(rows, width + 1, vocabulary, generator=generator).log_softmax(-1)
    draft = torch.randint(0, vocabulary, (rows, width), generator=generator)
    lengths = torch.randint(0, width + 1, (rows,), generator=generator)
    return draft, lengths, log_probs


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.7, 1.5, 2.5, INFINITY]))
def test_equals_the_algorithm(seed, alpha_rb):
    draft, lengths, log_probs = random_block(seed)
    verdict = judge(RollbackRule(alpha_rb), draft, lengths, log_probs)
    for row, length in enumerate(lengths.tolist()):
        distances = [-float(log_probs[row, i, draft[row, i]]) for i in range(length)]
        first = next((i for i, d in enumerate(distances) if d > alpha_rb), length)
        assert int(verdict.counts[row]) == first
        assert int(verdict.next_token[row]) == int(log_probs[row, first].argmax())


@given(st.integers(0, 10**6))
def test_at_0_everything_is_the_verifiers(seed):
    draft, lengths, log_probs = random_block(seed)
    verdict = judge(RollbackRule(0.0), draft, lengths, log_probs)
    assert verdict.counts.tolist() == [0] * len(lengths)
    assert verdict.next_token.tolist() == log_probs[:, 0].argmax(-1).tolist()


@given(st.integers(0, 10**6), st.floats(0, 5), st.floats(0, 5))
def test_a_higher_threshold_keeps_more(seed, one, other):
    block = random_block(seed)
    few, many = (judge(RollbackRule(alpha), *block).counts for alpha in sorted((one, other)))
    assert bool((few <= many).all())


def test_at_the_threshold_a_token_stays():
    log_probs = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]]).log()
    block = torch.tensor([[1]]), torch.tensor([1]), log_probs
    assert judge(RollbackRule(-math.log(0.25) + 1e-6), *block).counts.tolist() == [1]
    assert judge(RollbackRule(-math.log(0.25) - 1e-6), *block).counts.tolist() == [0]


def test_an_impossible_token_is_never_kept():
    log_probs = torch.zeros(1, 2, 6)
    log_probs[0, 0] = torch.tensor([0.0] + [-INFINITY] * 5)
    block = torch.tensor([[4]]), torch.tensor([1]), log_probs
    for alpha_rb in (0.0, 1e9, INFINITY):
        assert judge(RollbackRule(alpha_rb), *block).counts.tolist() == [0]


def test_a_certain_token_is_kept_at_0():
    log_probs = torch.full((1, 2, 4), -INFINITY)
    log_probs[..., 2] = 0.0
    block = torch.tensor([[2]]), torch.tensor([1]), log_probs
    verdict = judge(RollbackRule(0.0), *block)
    assert verdict == judge(ExactRule(), *block)
    assert verdict.counts.tolist() == [1]


def test_sampling_draws_the_verifiers_token_and_judges_alike():
    """Section 7.4: the same policy; the big model's token is drawn, from its nucleus."""
    rows = 4000
    p = torch.tensor([0.45, 0.35, 0.12, 0.08])
    log_probs = p.log().expand(rows, 2, 4).contiguous()
    draft = torch.arange(4).repeat(rows // 4).unsqueeze(1)
    lengths = torch.ones(rows, dtype=torch.long)
    sampler = Sampler(topp=0.75, generator=torch.Generator().manual_seed(1))
    rule = RollbackRule(-math.log(0.1), sampler)
    verdict = judge(rule, draft, lengths, log_probs)
    # Outside the nucleus, and yet likely enough: the policy looks at the whole distribution.
    assert verdict.counts.tolist() == [1, 1, 1, 0] * (rows // 4)
    drawn = torch.bincount(verdict.next_token, minlength=4) / rows
    assert drawn[2:].tolist() == [0.0, 0.0]
    assert float(drawn[0]) == pytest.approx(0.45 / 0.8, abs=0.03)


def test_every_row_draws_from_its_own_distribution():
    draft, lengths, log_probs = random_block(5, rows=40)
    verdict = judge(RollbackRule(2.0, Sampler(topk=1)), draft, lengths, log_probs)
    plain = judge(RollbackRule(2.0), draft, lengths, log_probs)
    assert verdict.counts.tolist() == plain.counts.tolist()
    assert verdict.next_token.tolist() == plain.next_token.tolist()
    assert len(set(verdict.next_token.tolist())) > 3 and len(set(verdict.counts.tolist())) > 3
