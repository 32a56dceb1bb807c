"""How many tokens each iteration of a replay emits: drawn, such that their mean is given."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

# Draws of the whole set, of which the one is kept whose mean is nearest to the one asked for.
DRAWS = 2000
# Largest log-odds of a draft token's being right.
STEEPEST = 30.0


def mean_emitted(weights: Sequence[float], length: int) -> float:
    """Tokens an iteration (Tok.) over sentences of ``length`` tokens, expected.

    An iteration that would pass the end is cut there.
    """
    total = sum(weights)
    iterations = [0.0] * (length + 1)  # still expected with so many tokens to go
    for left in range(1, length + 1):
        rest = sum(w * iterations[max(0, left - size)] for size, w in enumerate(weights, 1))
        iterations[left] = 1 + rest / total
    return length / iterations[length]


def constant_acceptance(largest: int, mean: float, length: int) -> list[float]:
    """Shares of the sizes 1 .. ``largest`` if every draft token is right with one probability p,
    whatever came before, and p such that ``mean_emitted`` is ``mean`` (the capped geometric
    distribution).

    Args:
        largest: tokens that an iteration emits at most.
        mean: tokens per iteration.
        length: tokens of every sentence, </s> included.

    Raises:
        ValueError: no p gives that mean.
    """

    def shares(odds: float) -> list[float]:
        p = 1 / (1 + math.exp(-odds))
        return [(1 - p) * p**i for i in range(largest - 1)] + [p ** (largest - 1)]

    low, high = -STEEPEST, STEEPEST
    reach = [mean_emitted(shares(odds), length) for odds in (low, high)]
    if not reach[0] - 1e-6 <= mean <= reach[1] + 1e-6:
        raise ValueError(
            f"--mean-accepted {mean:g}: with sentences of {length} tokens and these blocks it can "
            f"be from {reach[0]:.2f} to {reach[1]:.2f}; change it, --length or --block-size"
        )
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_emitted(shares(middle), length) < mean else (low, middle)
    return shares(high)


def draw(weights: Sequence[float], length: int, sentences: int, seed: int) -> list[list[int]]:
    """Sizes of the iterations of every sentence.

    A few sentences would miss the mean by chance: of many draws the first is kept whose number of
    iterations is nearest to the expected one.

    Args:
        weights: of the sizes from 1.
        length: tokens of every sentence; so much every list of sizes sums to.
        sentences: how many.
        seed: same seed, same sizes.
    """
    wanted = sentences * length / mean_emitted(weights, length)
    generator = random.Random(seed)
    sizes = range(1, len(weights) + 1)

    def sentence() -> list[int]:
        drawn: list[int] = []
        while (left := length - sum(drawn)) > 0:
            drawn.append(min(left, generator.choices(sizes, weights)[0]))
        return drawn

    def away(drawn: list[list[int]]) -> float:
        return abs(sum(map(len, drawn)) - wanted)

    draws = ([sentence() for _ in range(sentences)] for _ in range(DRAWS))
    best = next(draws)
    for drawn in draws:
        if away(best) <= 0.5:
            break
        best = min(best, drawn, key=away)
    return best


def draw_each(weights: Sequence[float], length: int, sentences: int, seed: int) -> list[list[int]]:
    """A size for each of ``length`` iterations of every sentence, each drawn independently."""
    generator = random.Random(seed)
    sizes = range(1, len(weights) + 1)
    return [generator.choices(sizes, weights, k=length) for _ in range(sentences)]
