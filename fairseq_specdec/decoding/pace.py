"""How many tokens to draft: so many that an iteration emits most tokens in its time.

Passes and drafts are timed as they run. The least times count, since another program that loads the
machine lengthens all of them, and some much more than others. How likely draft tokens are accepted
is a running mean. Where the output does not depend on the drafts, all of this changes nothing but
the time.
"""

from __future__ import annotations

import bisect
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fairseq_specdec.drafting import Drafter
from fairseq_specdec.engine.transformer import Verifier

from .iteration import Iteration
from .options import DecodingOptions

LONGEST = 64
"""Tokens of a draft that are looked at."""

CHANCES = (*(i / 50 for i in range(50)), 0.99, 0.995)
"""The chances of a draft token to be accepted for which plans are made; one holds to the next."""

TIMED = True
"""Whether generators plan by measured times; else by the first guess, which repeats a run."""

FORGETS = 0.05
"""Weight of the newest iteration in the running means of accepted and rejected drafts."""
# The same where little is drafted: a try weighs more, and more still where ``copies``.
_TRIAL_FORGETS = (0.15, 0.3)
# Rows whose draft was rejected, a row, before anything was drafted.
_FIRST_STOPPED = 0.5
# Where the output depends on the drafts, plans are made for this chance, whatever is accepted.
_RELAXED_CHANCE = 0.8

# Drafts are made where they promise to emit so many times as much as none would, for one row and
# for several, whose passes are of so many sizes that each is timed seldom; the second where
# ``copies``: what is copied may be another sentence's, of which some tokens fit.
_PAYS = (1.05, 1.1), (1.15, 1.1)
# The same of drafts of a model, which share the caches with the verifier: passes beside them take
# longer than those without.
_MODEL_PAYS = 1.25
# A try to draft, where drafts do not pay, may lose this share of the time since the last one. It
# also ends a call of the native library that does many iterations: tries are seldom in any case,
# and more so where each opens a session of a model.
_TRIAL_SHARE = 0.01
_SHORTEST_REST = 48
_SHORTEST_REST_OF_MODELS = 256
# Iterations between tries of ``FewRejections``.
_LONGEST_REST = 16

# Before anything was timed: what each further token of a pass takes, in passes over one token; and
# a draft of a model, in passes over as many tokens.
_COLUMN = 0.06
_DRAFT = 0.5
# Seconds of an iteration that drafts, beside passes and drafts. Within a call of the native library
# for several iterations: it is booked on its own (Zen 4). Where it is a call of its own instead.
_BOOKED = 2e-5
_CALLED = 1.8e-4
# Seconds of a try where ``copies``, beside those: it is a call of its own, with what that prepares.
_TRIED = 6e-4

# Weights of fewer bytes are read from a cache.
_FEW_BYTES = 1 << 25
# A time that is longer than the least moves it by this share: a change of frequency is followed.
_FORGETS_TIMES = 0.02
# Of so many times the least counts half, and the guess half.
_FEW = 5
# The first passes of a process are slower.
_WARM_UP = 2
# Passes without drafts are timed again after so many iterations, in so many, which are at most this
# share of all.
_STALE = 256
_PROBE = 4
_PROBES = 1 / 32


class Plan(NamedTuple):
    """What an iteration drafts."""

    size: int | None  # draft tokens of a row; 0 for none, None for as many as the drafter gives
    # ``size`` + 1 numbers: what it takes longer to verify 0, 1, ... draft tokens of a row than to
    # verify none, in tokens that are emitted in that time; None where only ``size`` counts
    costs: tuple[float, ...] | None = None
    # where ``size`` is 0: iterations without drafts in whose time what a try loses is a small
    # share, and the draft tokens of a row in such a try
    rest: int = 0
    trial: int = 0
    iterations: int | None = None  # the plan is for so many; None for as many as a call does
    gain: float = 1.0  # how many times as many tokens it promises to emit in a time as no draft


WHOLE = Plan(None)
"""Whole drafts, whatever they take."""
NOTHING = Plan(0)
"""No draft."""


class LeastTimes:
    """The least seconds of something by how many tokens it is over, and a line through them.

    Args:
        column: what each further token takes, as a share of the first, where nothing is known.
    """

    def __init__(self, column: float) -> None:
        self.column = column
        self.least: dict[int, float] = {}
        self.counts: Counter[int] = Counter()
        self.last_seen: dict[int, int] = {}
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
        moved = (seconds - least) * min(1.0, _FORGETS_TIMES * times) if seconds > least else 0.0
        self.least[place] = min(least, seconds) + moved
        self.counts[place] += times
        self.last_seen[place] = self.seen

    def fit(self) -> None:
        """Draw the line through the least times.

        More tokens take no less, and a token of many takes no more than one of few: times of which
        all were disturbed lie above others by this. The least time of a place that was seldom
        timed is likely too long, too: the fewer, the more the guess counts.
        """
        known = dict(self.least)
        if not known:
            return
        places = np.array(sorted(known), float)
        line = np.array([known[int(place)] for place in places])
        line = np.minimum.accumulate(line[::-1])[::-1]
        line = places * np.minimum.accumulate(line / places)
        guess = 1 + self.column * (places - 1)
        for i in range(1, len(line)):
            guessed = line[i - 1] * guess[i] / guess[i - 1]
            count = self.counts[int(places[i])]
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


def expected(chance: Any, size: Any) -> Any:
    """Tokens that an iteration emits, if each draft token is accepted with ``chance`` after
    accepted ones (Leviathan et al. 2023, equation 1).

    Args:
        chance: 0 to below 1; a number or an array.
        size: draft tokens; a number or an array.
    """
    return (1 - chance ** (size + 1)) / (1 - chance)


class Planning:
    """Decides how much to draft, and learns how drafts are accepted. Batches of many threads share
    it: any thread's times and figures are as good.

    Attributes:
        resumes: an iteration may draft after one that did not, in the same batch.
        copies: the native library copies the drafts from a text, between verifications.
        accepted: running mean of the draft tokens of a row that an iteration accepted.
        stopped: running mean of how often fewer were accepted than were asked for.
        rested: iterations since something was drafted.
    """

    resumes = True
    copies = False
    accepted = stopped = 0.0
    rested = 0

    def begin(self, chance: float) -> Planning:
        """Begin with this chance of a draft token to be accepted after accepted ones."""
        self.accepted = _FIRST_STOPPED * chance / (1 - chance)
        self.stopped = _FIRST_STOPPED
        self.rested = 0
        return self

    @property
    def chance(self) -> float:
        """Probability that a draft token is accepted after accepted ones."""
        return self.accepted / max(self.accepted + self.stopped, 1e-9)

    def learn(self, accepted: float, stopped: float) -> None:
        """From an iteration with drafts: its means over rows."""
        weight = _TRIAL_FORGETS[self.copies] if self.rested > 0 else FORGETS
        self.accepted += weight * (accepted - self.accepted)
        self.stopped += weight * (stopped - self.stopped)
        self.rested = 0

    def plan(self, live: int, chance: float) -> Plan:
        """For ``live`` rows and the chance of a draft token to be accepted after accepted ones."""
        raise NotImplementedError

    def probe(self, live: int) -> Plan | None:
        """What to do before a draft, to learn what iterations take; None for nothing."""
        return None

    def observe(self, done: Iteration, asked: int) -> None:
        """An iteration was timed, or several without drafts. ``asked``: draft tokens of a row."""


@dataclass(eq=False)
class Planner(Planning):
    """What pays by the times of a verifier and its drafter."""

    longest: int = LONGEST  # most tokens that are drafted for a row
    ends_early: bool = False  # the drafter ends drafts where it expects a rejection
    resumes: bool = True
    whole: bool = False  # drafts are of the longest size, or none
    column: float = _COLUMN  # as in ``LeastTimes``
    share: float = 0.0  # a draft, in passes over as many tokens, before one was timed
    beside: float = 0.0  # seconds of an iteration that drafts, beside pass and draft
    measured: bool = True  # iterations are timed; else the first guess holds
    copies: bool = False

    def __post_init__(self) -> None:
        self.longest = min(self.longest, LONGEST)
        self.passes, self.drafts = LeastTimes(self.column), LeastTimes(self.column)
        self.steps = LeastTimes(self.column)  # of a small model that drafts token by token
        self.fits = self.probed = 0
        self._next_fit = 1
        self._made: dict[tuple[int, int], Plan] = {}

    def observe(self, done: Iteration, asked: int) -> None:
        rows, (_, drafting, verifying) = len(done.sizes), done.seconds
        if not self.measured or verifying <= 0 or any(done.unverified):
            return
        self.passes.observe(rows + sum(done.proposed), verifying, done.times)
        if asked > 0 and done.passes:
            self.steps.observe(rows, drafting / done.passes)
        elif asked > 0:
            self.drafts.observe(rows * asked, drafting)
        seen = self.passes.seen
        if seen >= self._next_fit:
            self._next_fit = seen + min(max(8, seen // 2), 4096)
            for each in (self.passes, self.drafts, self.steps):
                each.fit()
            self._made = {}
            self.fits += 1

    def drafting(self, rows: int, sizes: Any) -> Any:
        """Of drafting so many tokens for each of the rows, as ``LeastTimes.at``."""
        sizes = np.asarray(sizes)
        if self.steps.line is not None:
            return sizes * self.steps.at(rows)
        if self.drafts.line is not None:
            taken = self.drafts.at(rows * sizes)
        else:
            taken = self.share * self.passes.at(rows * sizes)
        beside = self.beside if self.passes.line is not None else 0.0
        return np.where(sizes > 0, taken + beside, 0.0)

    def plan(self, live: int, chance: float) -> Plan:
        i = bisect.bisect(CHANCES, chance) - 1
        plan = self._made.get((live, i))
        if plan is None:
            plan = self._made[live, i] = self._plan(live, CHANCES[i])
        return plan

    def _plan(self, live: int, chance: float) -> Plan:
        sizes = np.arange(self.longest + 1)
        verifying = self.passes.at(live * (1 + sizes))
        # A drafter that judges its tokens gives fewer than it is asked for: the demo pair's gives
        # 2.9, 3.6 and 4.0 of 4, 6 and 10, about as many as if the root of the chance were that of a
        # token to be given.
        given = expected(chance**0.5, sizes) - 1 if self.ends_early else sizes
        emitted = expected(chance, sizes)
        seconds = np.interp(given, sizes, verifying) + self.drafting(live, sizes)
        rates = emitted / seconds  # tokens of a row per second
        if self.whole:
            rates[1:-1] = 0.0
        best = int(rates[1:].argmax()) + 1 if self.longest else 0
        least_gain = _PAYS[self.copies][live > 1] if self.resumes else _MODEL_PAYS
        if rates[best] > least_gain * rates[0]:
            costs = rates[best] * (verifying[: best + 1] - verifying[0]) / live
            return Plan(best, tuple(costs.tolist()), gain=float(rates[best] / rates[0]))
        tried = _TRIED if self.copies and self.passes.line is not None else 0.0
        lost = float((seconds[best] + tried) / verifying[0] - emitted[best])
        shortest = _SHORTEST_REST if self.resumes else _SHORTEST_REST_OF_MODELS
        return Plan(0, rest=max(shortest, round(lost / _TRIAL_SHARE)), trial=best)

    def probe(self, live: int) -> Plan | None:
        """Some iterations without drafts, where it is not known what these take; else None."""
        passes = self.passes
        if not self.measured or passes.knows(live):
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
    # passes take longer drafts end where they are fastest (benchmarks/design-log.md).
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


class FewRejections(Planning):
    """Drafts of so many tokens that few of them are expected to be rejected (``--draft-budget``).

    Args:
        max_rejections: expected rejected tokens of a verification, of all sentences together.
    """

    def __init__(self, max_rejections: int) -> None:
        self.max_rejections = max_rejections

    def plan(self, live: int, chance: float) -> Plan:
        """If each token is accepted with the chance after accepted ones, the j-th of a draft is
        rejected with 1 - chance^j (the assumption of equation 1 of Leviathan et al. 2023, 3.1)."""
        left, reached = self.max_rejections / live, 1.0
        for size in range(LONGEST):
            reached *= chance
            left -= 1 - reached
            if left < 0:
                return Plan(size, rest=_LONGEST_REST, trial=1)
        return WHOLE


def planning_for(
    verifier: Verifier,
    drafter: Drafter,
    options: DecodingOptions,
    chained: bool = True,
    sampled: bool = False,
) -> Planning:
    """For a generator whose drafts need not be whole.

    Args:
        verifier, drafter: with their weights.
        options: all other settings.
        chained: a call of the library can do several iterations (``NativeChains``).
        sampled: tokens are drawn, so that the output depends on what is drafted.
    """
    if options.draft_budget:
        return FewRejections(options.draft_budget)
    longest = LONGEST if drafter.block_size is None else drafter.block_size
    on_gpu = next(verifier.models[0].parameters()).is_cuda
    if options.plans_once:
        small = verifier.nbytes < _FEW_BYTES and options.verifier_format in ("int8", "int7")
        return RelaxedTable(longest, on_gpu, small)
    return Planner(
        longest,
        drafter.ends_early,
        resumes=not drafter.runs_model,
        # A CUDA graph computes blocks of few sizes, and each is recorded anew.
        whole=drafter.whole_on_gpu and on_gpu,
        # A GPU takes the time of its launches, however many tokens there are.
        column=0.0 if on_gpu else _COLUMN,
        share=_DRAFT if drafter.runs_model else 0.0,
        beside=(_BOOKED if drafter.in_library else _CALLED) if chained else 0.0,
        # On a GPU each time would take a synchronisation more.
        measured=TIMED and not (sampled or on_gpu),
        copies=chained and drafter.in_library and not drafter.runs_model,
    )


class DraftBudget:
    """How many tokens each row may draft in the next iteration of one batch.

    Where drafts do not pay, one is tried now and then, rarely enough to cost little time, and as
    the first of a batch.

    Attributes:
        over: nothing more is drafted in this batch. A drafter that is a model would have all to
            read that was accepted since, so its drafts begin with the batch or never.

    Args:
        planning: decides; None for whole drafts.
        ends_early: a drafter that drafts fewer tokens than it is asked for expects the rest to be
            rejected; else it has no more.
        sentences: of a full batch, where the output depends on what is drafted: then one plan for
            so many holds for the whole batch, whatever is accepted. Else None.
    """

    def __init__(
        self, planning: Planning | None, ends_early: bool = False, sentences: int | None = None
    ) -> None:
        self.planning, self.ends_early = planning, ends_early
        self.fixed: Plan | None = None
        if planning is not None and sentences is not None:
            self.fixed = planning.plan(sentences, _RELAXED_CHANCE)
        self.asked: int | None = None
        self.probes = self.over = False
        self.begun = 0  # iterations of this batch

    def plan(self, live: int) -> Plan:
        """What ``live`` rows draft now."""
        planning = self.planning
        if planning is None:
            return WHOLE
        plan = NOTHING if self.over else self.fixed or planning.plan(live, planning.chance)
        probe = planning.probe(live) if plan.size != 0 and self.fixed is None else None
        self.probes = probe is not None
        if probe is not None:
            plan = probe
        elif plan.size == 0:
            tries = plan.trial > 0 and self.begun == 0 and planning.rested >= plan.rest
            plan = Plan(plan.trial, iterations=1) if tries and self.fixed is None else NOTHING
            self.over = plan.size == 0 and not planning.resumes
        self.asked = plan.size
        return plan

    def learn(self, done: Iteration) -> None:
        """An iteration is over, or several without drafts."""
        planning, asked = self.planning, self.asked
        if planning is None:
            return
        self.begun += done.times
        if asked is not None:
            planning.observe(done, asked)
        if asked == 0:
            planning.rested += 0 if self.probes else done.times
            return
        # The rows for which something was drafted, or might have been.
        accepted = stopped = rows = 0
        for kept, proposed, ended in zip(done.accepted, done.proposed, done.done):
            if self.ends_early or proposed > 0:
                wanted = asked if self.ends_early and asked is not None else proposed
                accepted += kept
                stopped += not ended and kept < wanted
                rows += 1
        if rows > 0:
            planning.learn(accepted / rows, stopped / rows)
