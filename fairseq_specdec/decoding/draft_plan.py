"""How many tokens to draft: so many that an iteration emits most tokens in its time."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fairseq_specdec.costs.passes import PassTimes
from fairseq_specdec.drafting.plan import Plan

LONGEST = 64
"""Tokens of a draft that are looked at."""

CHANCES = (*(i / 50 for i in range(50)), 0.99, 0.995)
"""The chances of a draft token to be accepted for which plans are made; one holds to the next."""

# A plan is kept while it is expected to emit this share of what the best one would.
_GOOD_ENOUGH = 0.98

# Drafts are made where they promise to emit so many times as much as none would, for one row and
# for several: the predicted times are wrong by some hundredths (benchmarks/costs.md), and by more
# for several rows.
_PAYS = (1.05, 1.1)
# The same of drafts of a model: where it shares the last cache with its verifier and with other
# programs, passes beside it took a quarter longer than predicted (Zen 4), steps without it did not.
_MODEL_PAYS = 1.25

# A try to draft, where drafts do not pay, may lose this share of the time since the last one. It
# also ends a call of the native library that does many iterations: tries are seldom in any case,
# and more so where each opens a session of a model.
_TRIAL_SHARE = 0.01
_SHORTEST_REST = 48
_SHORTEST_REST_OF_MODELS = 256


def expected(chance: Any, size: Any) -> Any:
    """Tokens that an iteration emits, if each draft token is accepted with ``chance`` after
    accepted ones (Leviathan et al. 2023, equation 1).

    Args:
        chance: 0 to below 1; a number or an array.
        size: draft tokens; a number or an array.
    """
    return (1 - chance ** (size + 1)) / (1 - chance)


class Planner:
    """The plans for one verifier and its drafter; threads share it.

    Args:
        times: how long they take.
        longest: most tokens that are drafted for a row.
        ends_early: the drafter ends drafts where it expects the next token to be rejected.
        resumes: as in ``Planning``.
        whole: drafts are of the longest size, or none.
    """

    def __init__(
        self,
        times: PassTimes,
        longest: int = LONGEST,
        ends_early: bool = False,
        resumes: bool = True,
        whole: bool = False,
    ) -> None:
        self.times = times
        self.whole = whole
        self.resumes = resumes
        self.longest = min(longest, LONGEST)
        self.ends_early = ends_early
        self._of: Callable[[int], _Plans] = functools.lru_cache(None)(self._plans)

    def plan(self, live: int, chance: float) -> Plan:
        """For ``live`` rows and the chance of a draft token to be accepted after accepted ones."""
        return self._of(live).at(bisect.bisect(CHANCES, chance) - 1)

    def _plans(self, live: int) -> _Plans:
        sizes = range(self.longest + 1)
        verifying = [self.times.verifying(live * (1 + size)) for size in sizes]
        drafting = [
            self.times.drafting(live, size) + self.times.beside if size else 0.0 for size in sizes
        ]
        pays, rest = _PAYS[live > 1], _SHORTEST_REST
        if not self.resumes:
            pays, rest = _MODEL_PAYS, _SHORTEST_REST_OF_MODELS
        arrays = np.array(verifying), np.array(drafting)
        return _Plans(live, *arrays, self.ends_early, pays, rest, self.whole)


class _Plans:
    """The plans for some rows, made when they are asked for.

    Args:
        live: rows.
        verifying: [N + 1] seconds of a pass of the verifier with drafts of 0, 1, ... tokens.
        drafting: [N + 1] seconds of these drafts.
        ends_early: as in ``Planner``.
        least_gain: drafts are made where they promise as much.
        shortest_rest: least iterations between tries.
        whole: as in ``Planner``.
    """

    def __init__(
        self,
        live: int,
        verifying: np.ndarray,
        drafting: np.ndarray,
        ends_early: bool,
        least_gain: float,
        shortest_rest: int,
        whole: bool,
    ) -> None:
        self.live = live
        self.shortest_rest = shortest_rest
        self.verifying = verifying
        sizes = np.arange(len(verifying))
        chances = np.array(CHANCES)[:, None]
        # A drafter that judges its tokens gives fewer than it is asked for: the demo pair's gives
        # 2.9, 3.6 and 4.0 of 4, 6 and 10, about as many as if the root of the chance were that of a
        # token to be given.
        given = expected(np.sqrt(chances), sizes) - 1 if ends_early else sizes + 0 * chances
        self.emitted = expected(chances, sizes)
        self.seconds = np.interp(given, sizes, verifying) + drafting
        self.rates = self.emitted / self.seconds  # [chances, N + 1], tokens of a row per second
        if whole:
            self.rates[:, 1:-1] = 0.0
        best = self.rates[:, 1:].argmax(1) + 1 if len(sizes) > 1 else np.zeros(len(chances), int)
        pays = self.rates[np.arange(len(best)), best] > least_gain * self.rates[:, 0]
        self.best = best
        self.sizes = np.where(pays, best, 0)
        self.made: dict[int, Plan] = {}

    def at(self, i: int) -> Plan:
        """For the i-th chance."""
        plan = self.made.get(i)
        if plan is None:
            plan = self.made[i] = self._plan(i)
        return plan

    def _plan(self, i: int) -> Plan:
        size = int(self.sizes[i])
        first, last = self._kept(i)
        later = self.verifying[: size + 1] - self.verifying[0]
        costs = self.rates[i, size] * later / self.live
        rest = trial = 0
        if size == 0:
            trial = int(self.best[i])
            lost = self.seconds[i, trial] / self.verifying[0] - self.emitted[i, trial]
            rest = max(self.shortest_rest, round(float(lost) / _TRIAL_SHARE))
        low = CHANCES[first] if first > 0 else -1.0
        high = CHANCES[last + 1] if last + 1 < len(CHANCES) else 2.0
        gain = float(self.rates[i, size] / self.rates[i, 0])
        return Plan(size, tuple(costs.tolist()), low, high, rest, trial, gain)

    def _kept(self, i: int) -> tuple[int, int]:
        """The first and the last chance around the i-th for which its size is good enough."""
        size = self.sizes[i]
        best = self.rates[np.arange(len(self.sizes)), self.sizes]
        good = (self.rates[:, size] >= _GOOD_ENOUGH * best) & ((self.sizes > 0) == (size > 0))
        first = last = i
        while first > 0 and good[first - 1]:
            first -= 1
        while last + 1 < len(good) and good[last + 1]:
            last += 1
        return first, last
