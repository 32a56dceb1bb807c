"""How many tokens to draft: so many that an iteration emits most tokens in its time."""

from __future__ import annotations

import bisect
import functools
import math
from typing import Callable, Sequence, Tuple

from fairseq_specdec.costs.passes import PassTimes
from fairseq_specdec.drafting.plan import Plan

LONGEST = 64
"""Tokens of a draft that are looked at."""

CHANCES = (*(i / 50 for i in range(50)), 0.99, 0.995)
"""The chances of a draft token to be accepted for which plans are made; one holds to the next."""

# A plan is kept while it is expected to emit this share of what the best one would.
_GOOD_ENOUGH = 0.98

# Drafts are made where they promise to emit so many times as much as none would: the predicted
# times are wrong by some hundredths (benchmarks/costs.md).
_PAYS = 1.04

# A try to draft, where drafts do not pay, may lose this share of the time since the last one.
_TRIAL_SHARE = 0.01
_SHORTEST_REST = 2


def expected(chance: float, size: int) -> float:
    """Tokens that an iteration emits, if each draft token is accepted with ``chance`` after
    accepted ones (Leviathan et al. 2023, equation 1).

    Args:
        chance: 0 to below 1.
        size: draft tokens.
    """
    return float((1 - chance ** (size + 1)) / (1 - chance))


class Planner:
    """The plans for one verifier and its drafter; threads share it.

    Args:
        times: how long they take.
        longest: most tokens that are drafted for a row.
        judged: the drafter ends drafts where it expects the next token to be rejected.
    """

    def __init__(self, times: PassTimes, longest: int = LONGEST, judged: bool = False) -> None:
        self.times = times
        self.longest = min(longest, LONGEST)
        self.judged = judged
        self._of: Callable[[int], Tuple[Plan, ...]] = functools.lru_cache(None)(self._plans)

    def plan(self, live: int, chance: float) -> Plan:
        """For ``live`` rows and the chance of a draft token to be accepted after accepted ones."""
        return self._of(live)[bisect.bisect(CHANCES, chance) - 1]

    def _plans(self, live: int) -> Tuple[Plan, ...]:
        rates = _Rates(self.times, live, self.longest, self.judged)
        sizes = [rates.best(chance) for chance in CHANCES]
        return tuple(_plan(rates, sizes, i) for i in range(len(CHANCES)))


class _Rates:
    """How fast drafts of 0, 1, ... tokens are for each of some rows."""

    def __init__(self, times: PassTimes, live: int, longest: int, judged: bool) -> None:
        self.live = live
        self.judged = judged
        sizes = range(longest + 1)
        self.verifying = [times.verifying(live * (1 + size)) for size in sizes]
        self.drafting = [times.drafting(live, size) if size else 0.0 for size in sizes]

    def seconds(self, chance: float, size: int) -> float:
        """Of an iteration.

        A drafter that judges its tokens gives fewer than it is asked for: the demo pair's gives
        2.9, 3.6 and 4.0 of 4, 6 and 10, about as many as if the root of the chance were that of a
        token to be given.
        """
        verified = expected(math.sqrt(chance), size) - 1 if self.judged else float(size)
        whole = int(verified)
        verifying = self.verifying[whole]
        if verified > whole:
            verifying += (verified - whole) * (self.verifying[whole + 1] - verifying)
        return verifying + self.drafting[size]

    def of(self, chance: float, size: int) -> float:
        """Tokens of a row a second."""
        return expected(chance, size) / self.seconds(chance, size)

    def best(self, chance: float, least: int = 0) -> int:
        """The size, ``least`` or more, that is fastest; 0 unless drafts pay."""
        sizes = range(max(1, least), len(self.verifying))
        size = max(sizes, key=functools.partial(self.of, chance), default=0)
        pays = least > 0 or self.of(chance, size) > _PAYS * self.of(chance, 0)
        return size if pays else 0

    def costs(self, chance: float, size: int) -> Tuple[float, ...]:
        """Of ``Plan``."""
        per_second, alone = self.of(chance, size), self.verifying[0]
        return tuple(
            per_second * (verifying - alone) / self.live for verifying in self.verifying[: size + 1]
        )


def _plan(rates: _Rates, sizes: Sequence[int], i: int) -> Plan:
    """The plan for the i-th chance, where ``sizes`` are the best of each chance."""
    chance, size = CHANCES[i], sizes[i]
    first, last = _kept(rates, sizes, i)
    rest = trial = 0
    if size == 0 and len(rates.verifying) > 1:
        trial = rates.best(chance, 1)
        lost = rates.seconds(chance, trial) / rates.verifying[0] - expected(chance, trial)
        rest = max(_SHORTEST_REST, round(lost / _TRIAL_SHARE))
    low = CHANCES[first] if first > 0 else -1.0
    high = CHANCES[last + 1] if last + 1 < len(CHANCES) else 2.0
    return Plan(size, rates.costs(chance, size), low, high, rest, trial)


def _kept(rates: _Rates, sizes: Sequence[int], i: int) -> Tuple[int, int]:
    """The first and the last chance around the i-th for which its size is good enough."""

    def good(at: int) -> bool:
        if not 0 <= at < len(CHANCES) or (sizes[at] > 0) != (sizes[i] > 0):
            return False
        chance = CHANCES[at]
        return rates.of(chance, sizes[i]) >= _GOOD_ENOUGH * rates.of(chance, sizes[at])

    first = last = i
    while good(first - 1):
        first -= 1
    while good(last + 1):
        last += 1
    return first, last
