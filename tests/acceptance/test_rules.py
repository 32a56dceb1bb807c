"""Acceptance rules against slow versions, token by token, of what the papers define."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from judging import judge

from fairseq_specdec.acceptance import (
    DistanceRule,
    ExactRule,
    MinimumBlockRule,
    RollbackRule,
    Sampler,
    TopBetaRule,
)
from fairseq_specdec.acceptance.rules import token_values

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
SYMBOLS = SPECIAL + ["7", "3", "-2", "10", "4", "madeupword0000"]
INFINITY = math.inf


def random_block(seed, rows=4, width=5):
    """Draft, sizes and log-probabilities: tokens of every verdict, some of them forbidden."""
    generator = torch.Generator().manual_seed(seed)
    size = len(SYMBOLS)
    log_probs = torch.randn(rows, width + 1, size, generator=generator).log_softmax(-1)
    forbidden = torch.rand(log_probs.shape, generator=generator) < 0.1
    forbidden[..., 2] = False
    log_probs = log_probs.masked_fill(forbidden, -INFINITY)
    rank = torch.randint(0, 3, (rows, width, 1), generator=generator)
    draft = log_probs[:, :-1].argsort(-1, descending=True).gather(2, rank).squeeze(2)
    anything = torch.randint(0, size, draft.shape, generator=generator)
    draft = torch.where(torch.rand(draft.shape, generator=generator) < 0.2, anything, draft)
    return draft, torch.randint(0, width + 1, (rows,), generator=generator), log_probs


def slow(block, accepts, minimum=1):
    """Token by token; ``accepts(token, scores)`` decides of one; ``minimum`` - 1 are unseen."""
    counts, following = [], []
    for tokens, length, log_probs in zip(*(each.tolist() for each in block)):
        possible = [log_probs[i][tokens[i]] > -INFINITY for i in range(length)]
        fine = [p and accepts(tokens[i], log_probs[i]) for i, p in enumerate(possible)]
        unseen = [*possible[: minimum - 1], False].index(False)
        counts.append(max(unseen, [*fine, False].index(False)))
        following.append(log_probs[counts[-1]].index(max(log_probs[counts[-1]])))
    return counts, following


def exactly(token, scores):
    return token == scores.index(max(scores))


def tolerated(beta, tau):
    """Ge et al. 2022, equations 8 and 9."""
    return lambda token, scores: (
        sum(score > scores[token] for score in scores) < beta and max(scores) - scores[token] <= tau
    )


def near(epsilon):
    """Stern et al. 2018, section 5.2."""

    def accepts(token, scores):
        numbers = [SYMBOLS[each] for each in (token, scores.index(max(scores)))]
        if not all(each.lstrip("-").isdigit() for each in numbers):
            return exactly(token, scores)
        return abs(int(numbers[0]) - int(numbers[1])) <= epsilon

    return accepts


def likely(alpha):
    """Kim et al. 2023, equation 3."""
    return lambda token, scores: -scores[token] <= alpha


# (rule, what decides of one token, tokens that every iteration adds)
DEFINITIONS = {
    "exact": (ExactRule(), exactly, 1),
    **{
        f"top {beta}, {tau}": (TopBetaRule(beta, tau), tolerated(beta, tau), 1)
        for beta, tau in ((1, 9.0), (3, 1.0), (12, 0.0), (12, INFINITY))
    },
    **{f"distance {d}": (DistanceRule(d), near(d), 1) for d in (0, 0.5, 3)},
    **{f"rollback {a}": (RollbackRule(a), likely(a), 1) for a in (0.0, 0.7, 2.5)},
    **{
        f"{name}, at least {least}": (MinimumBlockRule(rule, least), accepts, least)
        for name, rule, accepts in (
            ("exact", ExactRule(), exactly),
            ("near", DistanceRule(3), near(3)),
            ("among", TopBetaRule(2, INFINITY), tolerated(2, INFINITY)),
        )
        for least in (2, 8)
    },
}


@pytest.mark.parametrize("name", DEFINITIONS)
@given(st.integers(0, 10**6), st.sampled_from([0, 1, 5]))
def test_a_rule_is_its_definition(name, seed, width):
    rule, accepts, minimum = DEFINITIONS[name]
    rule.read_vocabulary(SYMBOLS)
    block = random_block(seed, width=width)
    verdict = judge(rule, *block)
    assert (verdict.counts.tolist(), verdict.next_token.tolist()) == slow(block, accepts, minimum)


def row(*chances):
    return torch.tensor(chances).log()


# (rule, what the verifier gives to three tokens, a draft token, whether it is kept)
EDGES = [
    (RollbackRule(-math.log(0.25) + 1e-6), row(0.5, 0.25, 0.25), 1, True),
    (RollbackRule(-math.log(0.25) - 1e-6), row(0.5, 0.25, 0.25), 1, False),
    (RollbackRule(0.0), row(0.0, 0.0, 1.0), 2, True),
    (TopBetaRule(3, 0.5), torch.tensor([-1.0, -1.5, -1.75]), 1, True),
    (TopBetaRule(3, 0.5), torch.tensor([-1.0, -1.5, -1.75]), 2, False),
]


@pytest.mark.parametrize("rule, scores, token, kept", EDGES)
def test_at_the_threshold_a_token_stays(rule, scores, token, kept):
    block = torch.tensor([[token]]), torch.tensor([1]), scores.expand(1, 2, 3)
    assert judge(rule, *block).counts.tolist() == [int(kept)]


def test_numbers_are_read_and_nothing_else():
    values = token_values(SYMBOLS)
    assert [v for v in values if not math.isnan(v)] == [7, 3, -2, 10, 4]
    for word in ("the@@", "\u0663", "7.5"):  # the second is a digit, in Arabic
        with pytest.raises(ValueError, match=f"--accept-epsilon: the dictionary holds '{word}'"):
            token_values(SYMBOLS + [word])
    with pytest.raises(ValueError, match="--accept-epsilon: .* no integers"):
        token_values(SPECIAL)


def test_a_rollback_draws_the_verifiers_token_and_judges_alike():
    """Kim et al. 2023, section 7.4: the big model's token is drawn, from its nucleus."""
    rows = 4000
    log_probs = row(0.45, 0.35, 0.12, 0.08).expand(rows, 2, 4).contiguous()
    draft = torch.arange(4).repeat(rows // 4).unsqueeze(1)
    torch.manual_seed(1)
    rule = RollbackRule(-math.log(0.1), Sampler(topp=0.75))
    verdict = judge(rule, draft, torch.ones(rows, dtype=torch.long), log_probs)
    # Outside the nucleus, and yet likely enough: the policy looks at the whole distribution.
    assert verdict.counts.tolist() == [1, 1, 1, 0] * (rows // 4)
    drawn = torch.bincount(verdict.next_token, minlength=4) / rows
    assert drawn[2:].tolist() == [0.0, 0.0]
    assert float(drawn[0]) == pytest.approx(0.45 / 0.8, abs=0.03)
    block = random_block(5, rows=40)  # every row draws from its own distribution
    verdict, plain = (judge(RollbackRule(2.0, s), *block) for s in (Sampler(topk=1), None))
    assert all(map(torch.equal, verdict[:2], plain[:2]))
    assert len(set(verdict.next_token.tolist())) > 3
