"""Scores on demand against slow versions that compute every log-probability."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_specdec.engine.scores import Edits, Scores

ROWS, WIDTH, WORDS = 3, 4, 9
MINUS_INFINITY = float("-inf")


def random_logits(seed, ties=False, dtype=torch.float32):
    """[B, W, V]; with ties most entries have several best tokens."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(ROWS, WIDTH, WORDS, generator=generator)
    if ties:
        logits = logits.clamp(-1, 1).round()
    return logits.to(dtype)


def random_edits(seed, forced=True):
    """Every constraint at once; -1 in ``listed`` and ``forced`` is nothing."""
    generator = torch.Generator().manual_seed(seed)
    shape = (ROWS, WIDTH)
    listed = torch.randint(-4, WORDS, (*shape, 5), generator=generator).clamp(min=-1)
    ahead = torch.randint(-8, WORDS, shape, generator=generator).clamp(min=-1)
    return Edits(
        everywhere=((1, MINUS_INFINITY), (0, -2.5), (3, 0.75)),
        token=2,
        banned=torch.rand(shape, generator=generator) < 0.4,
        listed=listed,
        forced=ahead if forced else None,
    )


def slow_dense(logits, edits=None):
    """Nested lists of log-probabilities, one after the other, in double precision."""
    rows = []
    for row in range(logits.size(0)):
        rows.append([])
        for entry in range(logits.size(1)):
            scores = logits[row, entry].double().tolist()
            largest = max(scores)
            total = largest + math.log(sum(math.exp(score - largest) for score in scores))
            scores = [score - total for score in scores]
            rows[-1].append(scores if edits is None else slow_edit(scores, edits, row, entry))
    return rows


def slow_edit(scores, edits, row, entry):
    """In stock's order; constraints do not renormalise."""
    for token, delta in edits.everywhere:
        scores[token] += delta
    if edits.banned is not None and bool(edits.banned[row, entry]):
        scores[edits.token] = MINUS_INFINITY
    for token in [] if edits.listed is None else edits.listed[row, entry].tolist():
        if token >= 0:
            scores[token] = MINUS_INFINITY
    forced = -1 if edits.forced is None else int(edits.forced[row, entry])
    if forced >= 0:
        scores = [score if t == forced else MINUS_INFINITY for t, score in enumerate(scores)]
    return scores


def near(numbers, expected):
    assert numbers.dtype == torch.float32
    expected = torch.tensor(expected)
    torch.testing.assert_close(numbers, expected, atol=1e-5, rtol=0, equal_nan=True)


def chosen(scores):
    """Float [B, W], the log-probabilities of the best tokens."""
    return scores.of(scores.best())


seeds = st.integers(0, 10**6)
formats = st.sampled_from([torch.float32, torch.float16])


@given(seeds, formats, st.integers(1, 3), st.integers(0, WIDTH), st.integers(1, WORDS + 2))
def test_scores_are_those_of_every_log_probability(seed, dtype, size, width, count):
    """Of one model, or the mean of the distributions of several, with every constraint."""
    each = [random_logits(seed + i, dtype=dtype) for i in range(size)]
    scores, edits = Scores.of_ensemble([logits.clone() for logits in each]), random_edits(seed)
    mean = sum(torch.tensor(slow_dense(logits)).double().exp() for logits in each) / size
    near(scores.log_probs, mean.log().float().tolist())
    expected = [
        [slow_edit(mean[r, w].log().tolist(), edits, r, w) for w in range(WIDTH)]
        for r in range(ROWS)
    ]
    scores.edit(edits)
    near(scores.log_probs, expected)
    best = scores.best()
    near(scores.of(best), [[max(entry) for entry in row] for row in expected])
    assert best.dtype == torch.long and best.shape == (ROWS, WIDTH)
    # Likely or not, possible or not.
    assert torch.equal(best[edits.forced >= 0], edits.forced[edits.forced >= 0])
    values, tokens = scores.topk(count)
    assert values.shape == tokens.shape == (ROWS, WIDTH, min(count, WORDS))
    near(values, [[sorted(entry, reverse=True)[:count] for entry in row] for row in expected])
    ranked = tokens.tolist()
    assert all(len(set(entry)) == len(entry) for row in ranked for entry in row)
    near(values, [[[expected[r][w][t] for t in ranked[r][w]] for w in range(WIDTH)]
                  for r in range(ROWS)])  # fmt: skip
    generator = torch.Generator().manual_seed(seed + 1)
    tokens = torch.randint(0, WORDS, (ROWS, width), generator=generator)
    own = [[expected[r][w][tokens[r, w]] for w in range(width)] for r in range(ROWS)]
    near(scores.of(tokens), own)
    gap = scores.gap(tokens)
    assert gap.shape == tokens.shape and gap.dtype == torch.float32
    for row in range(ROWS):
        for entry, score in enumerate(own[row]):
            if score == MINUS_INFINITY:  # no number where the best one is impossible too
                assert not math.isfinite(gap[row, entry])
            else:
                assert abs(float(gap[row, entry]) - (max(expected[row][entry]) - score)) < 1e-5


@given(seeds, formats)
def test_equal_tokens_rank_as_in_topk(seed, dtype):
    logits = random_logits(seed, ties=True, dtype=dtype)
    expected = logits.float().topk(2, dim=-1).indices[..., 0]
    scores = Scores(logits)
    assert torch.equal(scores.best(), expected)
    near(chosen(scores), [[max(e) for e in row] for row in slow_dense(logits)])


@given(seeds, st.integers(1, WORDS + 1), st.integers(0, WIDTH), st.booleans())
def test_among_best_counts_likelier_tokens(seed, count, width, ties):
    logits, edits = random_logits(seed, ties), random_edits(seed, forced=False)
    scores = Scores(logits.clone())
    scores.edit(edits)
    dense = scores.log_probs.tolist()
    generator = torch.Generator().manual_seed(seed + 1)
    tokens = torch.randint(0, WORDS, (ROWS, width), generator=generator)
    asked = torch.rand(tokens.shape, generator=generator) < 0.7
    expected = [
        [
            bool(asked[r, w]) and sum(s > dense[r][w][tokens[r, w]] for s in dense[r][w]) < count
            for w in range(width)
        ]
        for r in range(ROWS)
    ]
    kept = asked.clone()
    assert scores.among_best(tokens, count, asked).tolist() == expected
    assert torch.equal(asked, kept)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_models_output_stays_as_it_is(dtype):
    logits = random_logits(6, dtype=dtype)
    kept = logits.clone()
    scores = Scores(logits)
    scores.edit(random_edits(6))
    assert torch.equal(logits, kept)
    single = Scores(logits.float())
    single.edit(random_edits(6))
    assert torch.equal(scores.log_probs, single.log_probs), "rounds nothing more"
