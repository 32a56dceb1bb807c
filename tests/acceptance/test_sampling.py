"""Speculative sampling: what comes out is distributed as the verifier's own samples are."""

from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.search import Sampling
from hypothesis import given
from hypothesis import strategies as st
from judging import judge
from sampled import (
    MAX_LEN,
    PAD,
    SOURCES,
    VERIFIER,
    drawn_with,
    generator_for,
    task,
    tiny_model,
    worst_excess,
)

from fairseq_specdec.acceptance import Sampler, SamplingRule

# --- the rule alone


class Uniform(Sampler):
    """A sampler whose numbers from [0, 1) are these."""

    def __init__(self, uniform, sampler):
        super().__init__(sampler.topk, sampler.topp)
        self.uniform = uniform


def accept_the_likelier(rule):
    rule.sampler = Uniform(torch.ones_like, rule.sampler)


def random_distributions(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(*shape, generator=generator)).log_softmax(-1)


@given(st.integers(0, 10**6), st.integers(0, 4))
def test_impossible_tokens_never_come_out(seed, width):
    p, q = random_distributions(seed, 3, 5, 6), random_distributions(seed + 1, 3, 4, 6)
    p[..., 2:5] = float("-inf")
    torch.manual_seed(seed)
    sampler = Sampler()
    draft = sampler.draw(q.exp())[:, :width]
    lengths = torch.tensor([width, width // 2, 0])
    verdict = judge(SamplingRule(sampler), draft, lengths, p[:, : width + 1], q[:, :width])
    assert not bool(torch.isin(verdict.next_token, torch.tensor([2, 3, 4])).any())
    for row, count in enumerate(verdict.counts.tolist()):
        assert count <= int(lengths[row])
        assert not set(draft[row, :count].tolist()) & {2, 3, 4}


def test_what_is_rejected_by_rounding_alone_is_drawn_from_p():
    """p and q of the first row differ in the last bit: p - q has no positive part."""
    p = torch.tensor([0.0, 0.25, 0.75]).log().expand(2, 2, 3)
    q = torch.tensor([[[0.0, 0.25, 0.75]], [[0.0, 0.125, 0.875]]]).mul(1 + 1e-6).log()
    rule = SamplingRule(Sampler())
    accept_the_likelier(rule)
    verdict = judge(rule, torch.tensor([[2], [2]]), torch.tensor([1, 1]), p, q)
    assert verdict.counts.tolist() == [0, 0]
    assert int(verdict.next_token[0]) in (1, 2) and int(verdict.next_token[1]) == 1


def test_the_first_rejected_token_decides_what_is_drawn_instead():
    """Each row is rejected at another place, where p is above q for one token only."""
    p = torch.tensor([0.5, 0.25, 0.25]).expand(4, 4, 3).clone()
    q = torch.tensor([0.5, 0.25, 0.25]).expand(4, 3, 3).clone()
    for row, (more, less) in enumerate([(1, 0), (2, 0), (1, 0)]):
        q[row, row, less] += 0.125
        q[row, row, more] -= 0.125
    p[3, 3] = torch.tensor([0.0, 0.0, 1.0])  # kept whole: drawn from p
    rule = SamplingRule(Sampler())
    accept_the_likelier(rule)
    rule.sampler.uniform = lambda like: torch.full_like(like, 0.999)
    draft, lengths = torch.zeros(4, 3, dtype=torch.long), torch.full((4,), 3)
    verdict = judge(rule, draft, lengths, p.log(), q.log())
    assert verdict.counts.tolist() == [0, 1, 2, 3]
    assert verdict.next_token.tolist() == [1, 2, 1, 2]


@given(st.integers(0, 10**6), st.sampled_from([1e-6, 0.3, 0.8, 0.999, 1.0]))
def test_top_p_keeps_what_stock_keeps(seed, topp):
    log_probs = random_distributions(seed, 4, 1, 9)
    probabilities, indices = Sampling(Dictionary(), -1, topp)._sample_topp(log_probs.clone())
    theirs = torch.zeros(4, 1, 9).scatter_(2, indices, probabilities)
    theirs = theirs / theirs.sum(-1, keepdim=True)
    torch.testing.assert_close(Sampler(topp=topp).warp(log_probs), theirs)


# --- whole outputs

DRAFTED = ["sps", "gad", "sps by block", "gad by block"]


@pytest.mark.parametrize("strategy, args", drawn_with(["greedy", *DRAFTED]))
def test_outputs_are_distributed_as_the_verifiers(strategy, args, tmp_path):
    generator = generator_for(strategy, args, tmp_path)
    assert worst_excess(generator, args) < 4
    assert strategy == "greedy" or 0.1 < generator.stats.acceptance_rate < 0.95


@pytest.mark.parametrize("strategy", ["sps", "gad by block"])
def test_outputs_of_small_batches_under_a_budget_are_distributed_so_too(strategy, tmp_path):
    """Of an ensemble. Drafts of every length: the budget cuts them as rows come and go."""
    args = {"sampling_topp": 0.8, "temperature": 1.5}
    models = [VERIFIER, tiny_model(3, 2.0)]
    generator = generator_for(strategy, args, tmp_path, budget=24, models=models)
    assert worst_excess(generator, args, rows=20) < 4
    assert generator.stats.drafted > 0


DRAWS = [{}, {"sampling_topk": 7, "temperature": 2.0}, {"sampling_topp": 0.9, "temperature": 1.7}]


@pytest.mark.parametrize("args", DRAWS, ids=str)
@pytest.mark.parametrize("backend", ["torch", "native"])
def test_without_drafts_the_draws_are_stocks(backend, args, tmp_path):
    """The same seed and batch give the same samples with fairseq's own task, of 60 sentences."""
    flags = Namespace(sampling=True, max_len_b=MAX_LEN, unkpen=1e4, beam=1, **args)
    stock = task().build_generator([VERIFIER], flags)
    ours = generator_for("greedy", args, tmp_path, backend=backend)
    source = torch.full((60, 3), PAD)
    source[::2], source[1::2, 1:] = torch.tensor(SOURCES[0]), torch.tensor(SOURCES[1])
    lengths = torch.tensor([3, 2]).repeat(30)
    runs = []
    for generator in (stock, ours):
        torch.manual_seed(7)
        sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}}
        hypotheses = [row[0] for row in generator.generate([VERIFIER], sample)]
        runs.append([each["tokens"].tolist() for each in hypotheses])
        left = torch.rand(1)  # as much was drawn
        runs.append(left)
    assert len(set(map(str, runs[0]))) > 5
    assert runs[0] == runs[2] and torch.equal(runs[1], runs[3])
