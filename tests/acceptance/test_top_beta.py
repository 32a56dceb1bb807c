"""Acceptance rules against slow versions written from the equations."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from judging import judge

from fairseq_specdec.acceptance import (
    AcceptanceRule,
    DistanceRule,
    ExactRule,
    MinimumBlockRule,
    RollbackRule,
    Sampler,
    SamplingRule,
    TopBetaRule,
    leading,
)
from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft


def random_block(seed, rows=3, width=4, vocabulary=6):
    generator = torch.Generator().manual_seed(seed)
    log_probs = torch.randn(rows, width + 1, vocabulary, generator=generator).log_softmax(-1)
    # Drafts are the best, second best, ... so that every verdict occurs.
    rank = torch.randint(0, 3, (rows, width, 1), generator=generator)
    draft = log_probs[:, :-1].argsort(-1, descending=True).gather(2, rank).squeeze(2)
    lengths = torch.randint(0, width + 1, (rows,), generator=generator)
    return draft, lengths, log_probs


def slow(draft, lengths, log_probs, beta, tau):
    """Ge et al. 2022, equations (7), (8) and (9), token by token."""
    counts, following = [], []
    for row in range(draft.size(0)):
        count = 0
        for i in range(int(lengths[row])):
            scores = log_probs[row, i].tolist()
            own = scores[int(draft[row, i])]
            ranked = sorted(scores, reverse=True)
            if own < ranked[beta - 1] or ranked[0] - own > tau:
                break
            count += 1
        counts.append(count)
        following.append(max(range(6), key=log_probs[row, count].tolist().__getitem__))
    return counts, following


@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from([0.0, 0.4, 1.0, 3.0, 50.0]))
def test_top_beta_equals_the_equations(seed, beta, tau):
    block = random_block(seed)
    counts, following = slow(*block, beta, tau)
    verdict = judge(TopBetaRule(beta, tau), *block)
    assert verdict.counts.tolist() == counts
    assert verdict.next_token.tolist() == following


@given(st.integers(0, 10**6))
def test_exact_is_top_one(seed):
    block = random_block(seed)
    exact, relaxed = judge(ExactRule(), *block), judge(TopBetaRule(1, 9.0), *block)
    assert exact.counts.tolist() == relaxed.counts.tolist() == slow(*block, 1, 0.0)[0]
    assert exact.next_token.tolist() == relaxed.next_token.tolist()


def test_the_bonus_token_follows_a_fully_accepted_block():
    log_probs = torch.eye(6)[[3, 4, 5]].unsqueeze(0).log_softmax(-1)
    verdict = judge(ExactRule(), torch.tensor([[3, 4]]), torch.tensor([2]), log_probs)
    assert verdict.counts.tolist() == [2] and verdict.next_token.tolist() == [5]


def test_an_empty_draft_is_an_ordinary_step():
    log_probs = torch.randn(2, 1, 6)
    nothing = torch.zeros(2, 0, dtype=torch.long)
    verdict = judge(ExactRule(), nothing, torch.tensor([0, 0]), log_probs)
    assert verdict.counts.tolist() == [0, 0]
    assert verdict.next_token.tolist() == log_probs.argmax(-1).flatten().tolist()


@pytest.mark.parametrize("tau", [1e9, float("inf")])
def test_an_impossible_token_is_never_accepted(tau):
    log_probs = torch.zeros(1, 2, 6)
    log_probs[0, 0] = torch.tensor([0.0] + [float("-inf")] * 5)
    rule = TopBetaRule(6, tau)
    verdict = judge(rule, torch.tensor([[4]]), torch.tensor([1]), log_probs)
    assert verdict.counts.tolist() == [0]


def test_a_token_that_is_tau_below_the_best_is_accepted():
    log_probs = torch.tensor([[[-1.0, -1.5, -1.75], [0.0, -1.0, -2.0]]])
    for token, count in ((1, 1), (2, 0)):
        verdict = judge(TopBetaRule(3, 0.5), torch.tensor([[token]]), torch.tensor([1]), log_probs)
        assert verdict.counts.tolist() == [count]


RULES = {
    "none": (lambda: AcceptanceRule(), (False, False, False)),
    "exact": (lambda: ExactRule(), (True, True, False)),
    "top-beta": (lambda: TopBetaRule(3, 0.5), (False, False, False)),
    "distance": (lambda: DistanceRule(3), (False, False, False)),
    "rollback": (lambda: RollbackRule(1.0), (False, False, False)),
    "drawn rollback": (lambda: RollbackRule(1.0, Sampler()), (False, False, False)),
    "minimum": (lambda: MinimumBlockRule(ExactRule(), 1), (True, True, False)),
    "minimum 2": (lambda: MinimumBlockRule(ExactRule(), 2), (False, False, False)),
    "minimum of none": (lambda: MinimumBlockRule(AcceptanceRule(), 1), (False, False, False)),
    "minimum of drawn": (lambda: MinimumBlockRule(SamplingRule(Sampler()), 1), (False, True, True)),
    "sampling": (lambda: SamplingRule(Sampler()), (False, True, True)),
    "top-k sampling": (lambda: SamplingRule(Sampler(topk=2)), (False, True, True)),
    "top-p sampling": (lambda: SamplingRule(Sampler(topp=0.5)), (False, True, True)),
}


@pytest.mark.parametrize("name", RULES)
def test_what_a_rule_declares(name):
    make, expected = RULES[name]
    rule = make()
    properties = (rule.lossless, rule.draft_independent, rule.needs_draft_probabilities)
    assert all(ours is theirs for ours, theirs in zip(properties, expected)), properties


# Top-beta picks entries, which takes numbers.
@pytest.mark.parametrize("name", [n for n in RULES if "none" not in n and n != "top-beta"])
def test_a_verdict_is_made_on_the_scores_device(name):
    """No tensor comes from another device; "meta" has shapes and no numbers."""
    rule = RULES[name][0]()
    rule.read_vocabulary(["</s>", *map(str, range(5))])
    draft = Draft(
        torch.zeros(2, 4, dtype=torch.long, device="meta"),
        torch.zeros(2, dtype=torch.long, device="meta"),
        torch.zeros(2, 4, 6, device="meta"),
    )
    verdict = rule.accept(draft, Scores(torch.zeros(2, 5, 6, device="meta")))
    assert [part.device.type for part in verdict] == ["meta", "meta"]
    assert verdict.counts.shape == verdict.next_token.shape == (2,)


def test_ranks_are_counted_only_where_they_decide():
    """Not of the best token, of one that is too far below it, or after a rejected one."""
    log_probs = torch.tensor([0.0, -1.0, -5.0]).log_softmax(-1).expand(2, 6, 3).contiguous()
    scores = Scores(log_probs, normalised=True)
    asked = []
    scores.among_best = lambda tokens, count, where: asked.append(where) or where
    draft = Draft(torch.tensor([[0, 1, 0, 2, 1], [1, 1, 2, 0, 1]]), torch.tensor([5, 5]))
    assert TopBetaRule(2, 2.0).accept(draft, scores).counts.tolist() == [3, 2]
    assert asked[0].long().tolist() == [[0, 1, 0, 0, 0], [1, 1, 0, 0, 0]]


def test_leading_stops_at_the_first_rejection_and_at_the_length():
    kept = torch.tensor([[True, True, False, True], [True, True, True, True]])
    assert leading(kept, torch.tensor([4, 3])).tolist() == [2, 3]


def test_of_no_tokens_none_are_kept():
    nothing = torch.zeros(2, 0, dtype=torch.bool)
    assert leading(nothing, torch.zeros(2, dtype=torch.long)).tolist() == [0, 0]
