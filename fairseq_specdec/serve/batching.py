"""Which of the sentences that wait are decoded together, if any."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from fairseq_specdec.decoding.pace import Planner

# Lengths of the outputs of a batch of sources of one length, from the shortest to the longest, as
# shares of their mean.
_LENGTHS = (0.75, 1.25)

# A batch is made where it promises to decode so many times as many sentences per second as one
# sentence at a time would. It promises up to 0.2 more than was measured (docs/serving.md).
_PAYS = 1.2

# Among so many batches of waiting sentences, those with the nearest lengths are batched.
WINDOW = 4

Smallest = Callable[[], float]
"""Sentences of the smallest batch that pays; infinite where none does."""


def smallest_batch(translator: Any, widest: int) -> Smallest:
    """The smallest batch that pays, by the measured times and how drafts are accepted."""
    generator = translator.generator
    parts, options = generator.parts(), generator.options
    planned = parts.planning
    # One that drafts nothing, where nothing is planned by times.
    planner = planned if isinstance(planned, Planner) else Planner(0)

    @functools.lru_cache(maxsize=64)
    def smallest(chance: float, fits: int) -> float:
        def seconds(live: int) -> float:
            """Seconds per token of each row."""
            taken = float(planner.passes.at(live * options.beam))
            return taken / planner.plan(live, chance).gain

        return paying(seconds, widest)

    def now() -> float:
        return smallest(round((planned or planner).chance, 2), planner.fits)

    return now


def paying(seconds: Callable[[int], float], widest: int) -> float:
    """The smallest batch that pays; infinite where none does. ``seconds``: of a token of each of so
    many live rows."""
    alone = seconds(1)
    shortest, longest = _LENGTHS
    for rows in range(2, widest + 1):
        each = (longest - shortest) / rows  # from one row's end to the next
        together = (shortest + each / 2) * seconds(rows)
        together += sum(each * seconds(live) for live in range(1, rows))
        if rows * alone >= _PAYS * together:
            return rows
    return math.inf


def choose(lengths: Sequence[int], idle: int, widest: int, smallest: float) -> list[int]:
    """The places of the sentences to decode next, the longest first: the oldest, and with it those
    of nearest length if that pays. ``lengths``: tokens of what waits, the oldest first. ``idle``:
    other threads that wait for work; they get their share. ``smallest``: a batch that pays."""
    share = min(widest, -(-len(lengths) // (1 + idle)))
    if share < smallest:
        return [0]
    window = range(1, min(len(lengths), WINDOW * widest))
    near = sorted(window, key=lambda i: abs(lengths[i] - lengths[0]))[: share - 1]
    return sorted([0, *near], key=lambda i: -lengths[i])
