"""Approximate acceptance of blockwise decoding against slow versions of Stern et al. 2018, 5."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from judging import judge

from fairseq_specdec.acceptance import DistanceRule, ExactRule, MinimumBlockRule, TopBetaRule
from fairseq_specdec.acceptance.distance import token_values
from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import check_settings
from fairseq_specdec.decoding.strategies import STRATEGIES

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
SYMBOLS = SPECIAL + ["7", "3", "-2", "10", "4", "madeupword0000"]


def random_block(seed, rows=4, width=5):
    generator = torch.Generator().manual_seed(seed)
    size = len(SYMBOLS)
    log_probs = torch.randn(rows, width + 1, size, generator=generator).log_softmax(-1)
    forbidden = torch.rand(log_probs.shape, generator=generator) < 0.1
    forbidden[..., 2] = False
    log_probs = log_probs.masked_fill(forbidden, float("-inf"))
    rank = torch.randint(0, 3, (rows, width, 1), generator=generator)
    draft = log_probs[:, :-1].argsort(-1, descending=True).gather(2, rank).squeeze(2)
    anything = torch.randint(0, size, draft.shape, generator=generator)
    draft = torch.where(torch.rand(draft.shape, generator=generator) < 0.2, anything, draft)
    lengths = torch.randint(0, width + 1, (rows,), generator=generator)
    return draft, lengths, log_probs


def number(token):
    try:
        return int(SYMBOLS[token])
    except ValueError:
        return None


def slow(block, accepts, minimum=1):
    """Sections 5.1 to 5.3, token by token; ``accepts(token, scores)`` decides of one."""
    draft, lengths, log_probs = block
    counts, following = [], []
    for row in range(draft.size(0)):
        count = 0
        for i in range(int(lengths[row])):
            token, scores = int(draft[row, i]), log_probs[row, i].tolist()
            if scores[token] == -math.inf:
                break
            # Once a token was refused, only the minimum can bring in more.
            fine = count == i and i >= minimum - 1
            if i < minimum - 1 or (
                fine and accepts(token, scores) and agreed(block, row, i, accepts)
            ):
                count = i + 1
            else:
                break
        counts.append(count)
        scores = log_probs[row, count].tolist()
        following.append(scores.index(max(scores)))
    return counts, following


def agreed(block, row, upto, accepts):
    """Whether all tokens before ``upto`` were accepted for their own sake."""
    draft, _, log_probs = block
    return all(accepts(int(draft[row, i]), log_probs[row, i].tolist()) for i in range(upto))


def exactly(token, scores):
    return token == scores.index(max(scores))


def near(epsilon):
    def accepts(token, scores):
        best = scores.index(max(scores))
        if token == best:
            return True
        known = number(token) is not None and number(best) is not None
        return known and abs(number(token) - number(best)) <= epsilon

    return accepts


def among(top):
    def accepts(token, scores):
        return sum(score > scores[token] for score in scores) < top

    return accepts


def same(rule, block, accepts, minimum=1):
    rule.read_vocabulary(SYMBOLS)
    verdict = judge(rule, *block)
    counts, following = slow(block, accepts, minimum)
    assert verdict.counts.tolist() == counts
    assert verdict.next_token.tolist() == following


@given(st.integers(0, 10**6), st.sampled_from([0, 0.5, 1, 3, 5, 100]))
def test_distance_equals_the_definition(seed, epsilon):
    same(DistanceRule(epsilon), random_block(seed), near(epsilon))


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_top_k_is_top_beta_without_a_limit(seed, top):
    same(TopBetaRule(top, math.inf), random_block(seed), among(top))


@given(st.integers(0, 10**6), st.integers(1, 8))
def test_a_minimum_block_is_around_any_rule(seed, minimum):
    block = random_block(seed)
    same(MinimumBlockRule(ExactRule(), minimum), block, exactly, minimum)
    same(MinimumBlockRule(DistanceRule(3), minimum), block, near(3), minimum)
    same(MinimumBlockRule(TopBetaRule(2, math.inf), minimum), block, among(2), minimum)


def test_a_minimum_of_the_block_size_is_a_fixed_block():
    draft, _, log_probs = random_block(3)
    log_probs = log_probs.clamp(min=-50)
    lengths = torch.full((draft.size(0),), draft.size(1))
    rule = MinimumBlockRule(ExactRule(), draft.size(1) + 1)
    verdict = judge(rule, draft, lengths, log_probs)
    assert verdict.counts.tolist() == lengths.tolist()


@pytest.mark.parametrize("width", [0, 1, 2])
def test_a_minimum_holds_for_short_drafts(width):
    draft, _, log_probs = random_block(3)
    log_probs = log_probs.clamp(min=-50)[:, : width + 1]
    wrong = log_probs[:, :-1].argmin(-1)
    lengths = torch.full((draft.size(0),), width)
    verdict = judge(MinimumBlockRule(ExactRule(), 2), wrong, lengths, log_probs)
    assert verdict.counts.tolist() == [min(width, 1)] * len(lengths)
    own = log_probs[:, min(width, 1)].argmax(-1)
    assert verdict.next_token.tolist() == own.tolist()


def test_only_an_exact_rule_without_a_minimum_is_lossless():
    assert MinimumBlockRule(ExactRule(), 1).lossless
    assert not MinimumBlockRule(ExactRule(), 2).lossless
    assert not MinimumBlockRule(DistanceRule(2), 1).lossless


def test_a_distance_of_zero_is_exact():
    assert DistanceRule(0).epsilon == 0
    same(DistanceRule(0), random_block(11), exactly)


def test_an_impossible_token_at_no_distance_is_not_kept():
    log_probs = torch.zeros(1, 2, len(SYMBOLS))
    log_probs[0, 0] = -math.inf
    log_probs[0, 0, 4] = 0.0  # 7; 4 is near, and forbidden
    rule = DistanceRule(3)
    rule.read_vocabulary(SYMBOLS)
    draft = torch.tensor([[8]])
    assert judge(rule, draft, torch.tensor([1]), log_probs).counts.tolist() == [0]
    log_probs[0, 0, 8] = -50.0
    assert judge(rule, draft, torch.tensor([1]), log_probs).counts.tolist() == [1]


def test_neighbours_among_large_numbers_are_distinguished():
    rule = DistanceRule(0)
    rule.read_vocabulary(["16777216", "16777217"])  # one number in fp32
    log_probs = torch.tensor([0.75, 0.25]).log().expand(1, 2, 2)
    assert judge(rule, torch.tensor([[1]]), torch.tensor([1]), log_probs).counts.tolist() == [0]


def test_numbers_are_read_and_nothing_else():
    values = token_values(SYMBOLS)
    assert [v for v in values if not math.isnan(v)] == [7, 3, -2, 10, 4]
    for word in ("the@@", "\u0663", "7.5"):  # the second is a digit, in Arabic
        with pytest.raises(ValueError, match=f"--accept-epsilon: the dictionary holds '{word}'"):
            token_values(SYMBOLS + [word])
    with pytest.raises(ValueError, match="--accept-epsilon: .* no integers"):
        token_values(SPECIAL)


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"accept_top_k": 0}, "--accept-top-k 0"),
        ({"accept_epsilon": -1.0}, "--accept-epsilon -1"),
        ({"accept_epsilon": math.nan}, "--accept-epsilon nan"),
        ({"min_block_size": 0}, "--min-block-size 0"),
        ({"min_block_size": 5, "block_size": 4}, "--min-block-size 5: at most --block-size"),
        ({"accept_top_k": 2, "accept_epsilon": 0.0}, "--accept-top-k and --accept-epsilon"),
        ({"strategy": "greedy", "accept_epsilon": 0.0}, "--accept-epsilon: --strategy greedy"),
        ({"strategy": "greedy", "min_block_size": 2}, "--min-block-size: --strategy greedy"),
        ({"drafter_path": "d.pt"}, "--drafter-path: --strategy blockwise uses no drafter"),
    ],
    ids=str,
)
def test_impossible_flags_are_refused_by_name(flags, message):
    with pytest.raises(ValueError, match=message):
        check_settings(decoding_settings(**dict({"strategy": "blockwise"}, **flags)))


@pytest.mark.parametrize(
    "flags, inner",
    [
        ({}, ExactRule),
        ({"accept_top_k": 1}, TopBetaRule),
        ({"accept_epsilon": 0.0}, DistanceRule),
        ({"min_block_size": 2, "block_size": 2}, ExactRule),
    ],
    ids=str,
)
def test_flags_choose_the_rule(flags, inner):
    settings = decoding_settings(strategy="blockwise", **flags)
    check_settings(settings)
    rule = STRATEGIES["blockwise"].rule(settings)
    if "min_block_size" in flags:
        assert type(rule) is MinimumBlockRule and rule.minimum == 2
        rule = rule.rule
    assert type(rule) is inner  # alone, so that it may run natively
