"""How many tokens to draft: so many that an iteration emits most tokens in its time.

Passes and drafts are timed as they run. The least times count, since another program that loads the
machine lengthens all of them, and some much more than others.
"""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np

from fairseq_specdec.drafting import Drafter
from fairseq_specdec.engine.transformer import Verifier

from .draft_budget import LONGEST, NOTHING, FewRejections, Plan, Planning
from .iteration import Iteration
from .options import DecodingOptions

CHANCES = (*(i / 50 for i in range(50)), 0.99, 0.995)
"""The chances of a draft token to be accepted for which plans are made; one holds to the next."""

# Drafts are made where they promise to emit so many times as much as none would, for one row and
# for several, whose passes are of so many sizes that each is timed seldom.
_PAYS = (1.05, 1.1)
# The same of drafts of a model, which share the caches with the verifier: passes beside them take
# longer than those without.
_MODEL_PAYS = 1.25
# A try to draft, where drafts do not pay, may lose this share of the time since the last one. It
# also ends a call of the native library that does many iterations: tries are seldom in any case,
# and more so where each opens a session of a model.
_TRIAL_SHARE = 0.01
_SHORTEST_REST = 48
_SHORTEST_REST_OF_MODELS = 256

# Before anything was timed: what each further token of a pass takes, in passes over one token; and
# a draft of a model, in passes over as many tokens.
_COLUMN = 0.06
_DRAFT = 0.5
# A GPU takes the time of its launches, however many tokens there are.
_GPU_COLUMN = 0.0
# Seconds of an iteration that drafts, beside passes and drafts. Within a call of the native library
# for several iterations: it is booked on its own (Zen 4). Where it is a call of its own instead.
_BOOKED = 2e-5
_CALLED = 1.8e-4

# Weights of fewer bytes are read from a cache.
_FEW_BYTES = 1 << 25
TIMED = True
"""Whether generators plan by measured times; else by the first guess, which repeats a run."""
# A time that is longer than the least moves it by this share: a change of frequency is followed.
_FORGETS = 0.02
# Of so many times the least counts half, and the guess half.
_FEW = 5
# The first passes of a process are slower.
_WARM_UP = 2
# Times are fitted anew where one has changed by this share.
_CHANGED = 0.03
# Passes without drafts are timed again after so many iterations, in so many, which are at most this
# share of all.
_STALE = 256
_PROBE = 4
_PROBES = 1 / 32
# As long as few iterations were timed, the guess counts less from one to the next.
_LEARNING = 1 << 15


class LeastTimes:
    """The least seconds of something by how many tokens it is over, and a line through them.

    Args:
        column: what each further token takes, as a share of the first, where nothing is known.
    """

    def __init__(self, column: float) -> None:
        self.column = column
        self.least: dict[int, float] = {}
        self.counts: dict[int, int] = {}
        self.last_seen: dict[int, int] = {}
        self.fitted: dict[int, float] = {}
        self.line: tuple[Any, Any] | None = None  # places and seconds; replaced, never changed
        self.seen = 0

    @staticmethod
    def place(tokens: int) -> int:
        """The bucket of this number of tokens: its smallest number. Up to 16 each is its own."""
        step = 1 << max(0, tokens.bit_length() - 4)
        return tokens - tokens % step

    def observe(self, tokens: int, seconds: float, times: int = 1) -> None:
        """It took so long, the least of so many ``times``."""
        self.seen += times
        if self.seen <= _WARM_UP:
            return
        place = self.place(tokens)
        least = self.least.get(place, seconds)
        moved = (seconds - least) * min(1.0, _FORGETS * times) if seconds > least else 0.0
        self.least[place] = min(least, seconds) + moved
        self.counts[place] = self.counts.get(place, 0) + times
        self.last_seen[place] = self.seen

    @property
    def changed(self) -> bool:
        """Whether the line is no longer that of the least times."""
        return (
            self.seen < _LEARNING
            or len(self.fitted) < len(self.least)
            or any(
                abs(self.least[place] - fitted) > _CHANGED * fitted
                for place, fitted in self.fitted.items()
            )
        )

    def fit(self) -> None:
        """Draw the line through the least times.

        More tokens take no less, and a token of many takes no more than one of few: times of which
        all were disturbed lie above others by this. Of a place that was timed seldom, the least
        time is likely too long, too: the fewer, the more the guess counts.
        """
        known = self.fitted = dict(self.least)
        if not known:
            return
        places = np.array(sorted(known), float)
        line = np.array([known[int(place)] for place in places])
        line = np.minimum.accumulate(line[::-1])[::-1]
        line = places * np.minimum.accumulate(line / places)
        guess = 1 + self.column * (places - 1)
        for i in range(1, len(line)):
            guessed = line[i - 1] * guess[i] / guess[i - 1]
            count = self.counts.get(int(places[i]), 1)
            if line[i] > guessed:
                line[i] = guessed * (line[i] / guessed) ** (count / (count + _FEW))
        self.line = places, line

    def at(self, tokens: Any) -> Any:
        """Seconds (or where nothing is known, passes over one token) of so many tokens."""
        tokens = np.asarray(tokens, float)
        if self.line is None:
            return 1 + self.column * (tokens - 1)
        places, line = self.line
        first, last = places[0], places[-1]
        slope = self.column * line[-1] / (1 + self.column * (last - 1))
        if last >= 2 * first:
            slope = max(slope, (line[-1] - line[0]) / (last - first))
        below = (1 + self.column * (tokens - 1)) / (1 + self.column * (first - 1))
        within = np.interp(tokens, places, line)
        return np.where(tokens < first, below * within, within + slope * (tokens - last).clip(0))

    def knows(self, tokens: int) -> bool:
        """Whether something of about so many tokens was timed lately."""
        near = range(round(0.85 * tokens), round(1.15 * tokens) + 1)
        since = self.seen - _STALE
        return any(self.last_seen.get(place, since) > since for place in set(map(self.place, near)))


class Pace:
    """What a verifier and its drafter take. Batches of many threads share it: any thread's times
    are as good.

    Args:
        column: as in ``LeastTimes``, of passes.
        share: a draft, in passes over as many tokens, before one was timed.
        beside: seconds of an iteration that drafts, beside both.
        measured: iterations are timed; else the first guess holds.
    """

    def __init__(
        self,
        column: float = _COLUMN,
        share: float = 0.0,
        beside: float = 0.0,
        measured: bool = True,
    ) -> None:
        self.passes = LeastTimes(column)
        self.drafts = LeastTimes(column)
        self.steps = LeastTimes(column)  # of a small model that drafts token by token
        self.share = share
        self.beside = beside
        self.measured = measured
        self._next_fit = 1

    def observe(self, done: Iteration, asked: int) -> None:
        """An iteration, or several without drafts. ``asked``: draft tokens of a row."""
        rows, (_, drafting, verifying) = len(done.sizes), done.seconds
        if not self.measured or verifying <= 0 or any(done.unverified):
            return
        self.passes.observe(rows + sum(done.proposed), verifying, done.times)
        if asked > 0 and done.passes:
            self.steps.observe(rows, drafting / done.passes)
        elif asked > 0:
            self.drafts.observe(rows * asked, drafting)

    def refit(self) -> bool:
        """Draw new lines where the times have changed; whether they were drawn."""
        parts = (self.passes, self.drafts, self.steps)
        if self.passes.seen < self._next_fit or not any(each.changed for each in parts):
            return False
        self._next_fit = self.passes.seen + min(max(8, self.passes.seen // 2), 4096)
        for each in parts:
            each.fit()
        return True

    def verifying(self, tokens: Any) -> Any:
        """Of a pass of the verifier over so many tokens, of all rows together."""
        return self.passes.at(tokens)

    def drafting(self, rows: int, sizes: Any) -> Any:
        """Of drafting so many tokens for each of the rows."""
        sizes = np.asarray(sizes)
        if self.steps.fitted:
            return sizes * self.steps.at(rows)
        if self.drafts.fitted:
            taken = self.drafts.at(rows * sizes)
        else:
            taken = self.share * self.passes.at(rows * sizes)
        beside = self.beside if self.passes.fitted else 0.0
        return np.where(sizes > 0, taken + beside, 0.0)


def expected(chance: Any, size: Any) -> Any:
    """Tokens that an iteration emits, if each draft token is accepted with ``chance`` after
    accepted ones (Leviathan et al. 2023, equation 1).

    Args:
        chance: 0 to below 1; a number or an array.
        size: draft tokens; a number or an array.
    """
    return (1 - chance ** (size + 1)) / (1 - chance)


class Planner(Planning):
    """The plans for one verifier and its drafter; threads share it.

    Args:
        pace: how long they take.
        longest: most tokens that are drafted for a row.
        ends_early: the drafter ends drafts where it expects the next token to be rejected.
        resumes: as in ``Planning``.
        whole: drafts are of the longest size, or none.
    """

    def __init__(
        self,
        pace: Pace,
        longest: int = LONGEST,
        ends_early: bool = False,
        resumes: bool = True,
        whole: bool = False,
    ) -> None:
        self.pace = pace
        self.whole = whole
        self.resumes = resumes
        self.longest = min(longest, LONGEST)
        self.ends_early = ends_early
        self.fits = self.probed = 0
        self._made: dict[tuple[int, int], Plan] = {}

    def observe(self, done: Iteration, asked: int) -> None:
        self.pace.observe(done, asked)
        if self.pace.refit():
            self._made = {}
            self.fits += 1

    def plan(self, live: int, chance: float) -> Plan:
        """For ``live`` rows and the chance of a draft token to be accepted after accepted ones."""
        i = bisect.bisect(CHANCES, chance) - 1
        plan = self._made.get((live, i))
        if plan is None:
            plan = self._made[live, i] = self._plan(live, CHANCES[i])
        return plan

    def _plan(self, live: int, chance: float) -> Plan:
        sizes = np.arange(self.longest + 1)
        verifying = self.pace.verifying(live * (1 + sizes))
        # A drafter that judges its tokens gives fewer than it is asked for: the demo pair's gives
        # 2.9, 3.6 and 4.0 of 4, 6 and 10, about as many as if the root of the chance were that of a
        # token to be given.
        given = expected(chance**0.5, sizes) - 1 if self.ends_early else sizes
        emitted = expected(chance, sizes)
        seconds = np.interp(given, sizes, verifying) + self.pace.drafting(live, sizes)
        rates = emitted / seconds  # tokens of a row per second
        if self.whole:
            rates[1:-1] = 0.0
        best = int(rates[1:].argmax()) + 1 if self.longest else 0
        least_gain = _PAYS[live > 1] if self.resumes else _MODEL_PAYS
        if rates[best] > least_gain * rates[0]:
            costs = rates[best] * (verifying[: best + 1] - verifying[0]) / live
            return Plan(best, tuple(costs.tolist()), gain=float(rates[best] / rates[0]))
        lost = float(seconds[best] / verifying[0] - emitted[best])
        shortest = _SHORTEST_REST if self.resumes else _SHORTEST_REST_OF_MODELS
        return Plan(0, rest=max(shortest, round(lost / _TRIAL_SHARE)), trial=best)

    def probe(self, live: int) -> Plan | None:
        """Some iterations without drafts, where it is not known what these take; else None."""
        passes = self.pace.passes
        if not self.pace.measured or passes.knows(live):
            return None
        if live == 1 and passes.seen == 0:  # there may be no other sentence
            return None
        if self.probed > _PROBES * passes.seen + 16 * _PROBE:
            return None
        self.probed += _PROBE
        return NOTHING._replace(iterations=_PROBE)


class RelaxedTable(Planning):
    """How much is drafted for a relaxed rule, whose output depends on it: the same on every
    machine. A processor computes more than one sentence's tokens for long enough that drafts do not
    pay, and so a small model in 8 bits; a GPU takes the time of its launches.

    Args:
        longest: most tokens that are drafted for a row.
        on_gpu: the verifier runs there.
        quick: passes over a token take little time: of a small model in 8 bits.
    """

    resumes = False
    # Of the demo pair on an Intel Emerald Rapids with AVX2. A drafter estimates how likely the
    # verifier would choose its tokens; a relaxed rule accepts more than those. With half of what
    # passes take longer drafts end where they are fastest (benchmarks/choosing.md).
    COSTS = (
        0.0,
        0.09975743155660222,
        0.38282608851359645,
        0.46701032107344886,
        0.5974047259065656,
        0.7908688153720808,
    )

    def __init__(self, longest: int, on_gpu: bool = False, quick: bool = False) -> None:
        costs = (0.0,) * (longest + 1) if on_gpu else self.COSTS[: longest + 1]
        self.whole = Plan(len(costs) - 1, costs)
        self.most = LONGEST if on_gpu else 0 if quick else 1

    def plan(self, live: int, chance: float) -> Plan:
        return self.whole if live <= self.most else NOTHING


def planning_for(
    verifier: Verifier,
    drafter: Drafter,
    ready: Drafter,
    options: DecodingOptions,
    chained: bool = True,
    sampled: bool = False,
) -> Planning:
    """For a generator whose drafts need not be whole.

    Args:
        verifier: with its weights.
        drafter, ready: before and with its weights.
        options: all other settings.
        chained: a call of the library can do several iterations (``NativeChains``).
        sampled: tokens are drawn, so that the output depends on what is drafted.
    """
    if options.max_expected_rejections is not None:
        return FewRejections(options.max_expected_rejections)
    longest = LONGEST if drafter.block_size is None else drafter.block_size
    on_gpu = next(verifier.models[0].parameters()).is_cuda
    if options.planned_chance is not None:
        small = verifier.nbytes < _FEW_BYTES and options.verifier_format in ("int8", "int7")
        return RelaxedTable(longest, on_gpu, small)
    beside = (_BOOKED if ready.in_library else _CALLED) if chained else 0.0
    # On a GPU each time would take a synchronisation more.
    column, share = _GPU_COLUMN if on_gpu else _COLUMN, _DRAFT if drafter.runs_model else 0.0
    pace = Pace(column, share, beside, TIMED and not (sampled or on_gpu))
    # A CUDA graph computes blocks of few sizes, and each is recorded anew.
    whole = drafter.whole_on_gpu and on_gpu
    return Planner(pace, longest, drafter.ends_early, not drafter.runs_model, whole)
