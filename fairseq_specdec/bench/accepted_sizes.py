"""How many tokens each iteration of a replay emits: drawn from a given or recorded distribution."""

from __future__ import annotations

import math
import random
from typing import Callable, List, Sequence

from fairseq_specdec.trace.files import read_traces
from fairseq_specdec.trace.record import TraceError

from .workload import BenchError

# Draws of the whole set, of which the one is kept whose mean is nearest to the one asked for.
DRAWS = 2000
# Largest slope, in log-weight a token, that a distribution is tilted by to reach a mean; largest
# log-odds of a draft token's being right.
STEEPEST = 30.0


def recorded(path: str, largest: int, flag: str) -> List[float]:
    """Counts of iterations that emitted 1 .. ``largest`` tokens in a trace of ``--trace-path``.

    Raises:
        BenchError: no trace, an empty one, or one with iterations longer than ``largest``.
    """
    try:
        traces = read_traces(path)
    except TraceError as error:
        raise BenchError(f"{flag} {error}") from error
    weights = [0.0] * largest
    for trace in traces:
        for part in trace.iterations:
            size = len(part.emitted)
            if size > largest:
                raise BenchError(
                    f"{flag} {path}: sentence {trace.id} has an iteration of {size} tokens, and "
                    f"here one emits at most {largest}; use the --block-size of the trace"
                )
            weights[size - 1] += 1
    if not any(weights):
        raise BenchError(f"{flag} {path}: holds no iteration; decode some sentences with it")
    return weights


def mean_size(weights: Sequence[float]) -> float:
    """Mean of the sizes 1 .. len(weights) under these weights."""
    return sum(size * w for size, w in enumerate(weights, 1)) / sum(weights)


def mean_emitted(weights: Sequence[float], length: int) -> float:
    """Tokens an iteration (Tok.) over sentences of ``length`` tokens, expected.

    An iteration that would pass the end is cut there, so this is less than ``mean_size``.
    """
    total = sum(weights)
    iterations = [0.0] * (length + 1)  # still expected with so many tokens to go
    for left in range(1, length + 1):
        rest = sum(w * iterations[max(0, left - size)] for size, w in enumerate(weights, 1))
        iterations[left] = 1 + rest / total
    return length / iterations[length]


def tilted_to(weights: Sequence[float], mean: float, length: int, flag: str) -> List[float]:
    """Weights times exp(slope x size), the slope such that ``mean_emitted`` is ``mean``.

    Args:
        weights: of the sizes from 1.
        mean: tokens an iteration.
        length: tokens of every sentence, </s> included.
        flag: for messages.

    Raises:
        BenchError: no slope gives that mean.
    """

    def tilted(slope: float) -> List[float]:
        logs = [math.log(w) + slope * i if w > 0 else -math.inf for i, w in enumerate(weights)]
        top = max(logs)
        return [math.exp(x - top) for x in logs]

    return _reaching(tilted, mean, length, flag)


def constant_acceptance(largest: int, mean: float, length: int, flag: str) -> List[float]:
    """Shares of the sizes 1 .. ``largest`` if every draft token is right with one probability p,
    whatever came before, and p such that ``mean_emitted`` is ``mean`` (the capped geometric
    distribution; arguments as for ``tilted_to``).

    Raises:
        BenchError: no p gives that mean.
    """

    def shares(odds: float) -> List[float]:
        p = 1 / (1 + math.exp(-odds))
        return [(1 - p) * p**i for i in range(largest - 1)] + [p ** (largest - 1)]

    return _reaching(shares, mean, length, flag)


def _reaching(
    family: Callable[[float], List[float]], mean: float, length: int, flag: str
) -> List[float]:
    """The member of a family, ascending in its sizes, whose mean is the one asked."""
    low, high = -STEEPEST, STEEPEST
    reach = [mean_emitted(family(x), length) for x in (low, high)]
    if not reach[0] - 1e-6 <= mean <= reach[1] + 1e-6:
        raise BenchError(
            f"{flag} {mean:g}: with sentences of {length} tokens and these blocks it can be from "
            f"{reach[0]:.2f} to {reach[1]:.2f}; change it, --length or --block-size"
        )
    for _ in range(60):
        middle = (low + high) / 2
        if mean_emitted(family(middle), length) < mean:
            low = middle
        else:
            high = middle
    return family(high)


def draw(weights: Sequence[float], length: int, sentences: int, seed: int) -> List[List[int]]:
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
    cumulative = [sum(weights[: i + 1]) for i in range(len(weights))]

    def sentence() -> List[int]:
        found: List[int] = []
        left = length
        while left > 0:
            found.append(min(left, generator.choices(sizes, cum_weights=cumulative)[0]))
            left -= found[-1]
        return found

    best: List[List[int]] = []
    nearest = math.inf
    for _ in range(DRAWS):
        drawn = [sentence() for _ in range(sentences)]
        away = abs(sum(map(len, drawn)) - wanted)
        if away < nearest:
            best, nearest = drawn, away
        if nearest <= 0.5:
            break
    return best
