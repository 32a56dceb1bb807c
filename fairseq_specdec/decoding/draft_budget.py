"""How much to draft: as much as pays, where that changes nothing but the time."""

from __future__ import annotations

from typing import NamedTuple

from .iteration import Iteration

LONGEST = 64
"""Tokens of a draft that are looked at."""

FORGETS = 0.05
"""Weight of the newest iteration in the running means of accepted and rejected drafts."""

# The same where little is drafted: a try weighs more.
_TRIAL_FORGETS = 0.15

# Iterations between tries of ``FewRejections``.
_LONGEST_REST = 16

# Rows whose draft was rejected, a row, before anything was drafted.
_FIRST_STOPPED = 0.5


class Plan(NamedTuple):
    """What an iteration drafts.

    Attributes:
        size: draft tokens of a row; 0 for none, None for as many as the drafter gives.
        costs: ``size`` + 1 numbers: what it takes longer to verify 0, 1, ... draft tokens of a row
            than to verify none, in tokens that are emitted in that time. None where only ``size``
            counts.
        rest: where ``size`` is 0: iterations without drafts in whose time what a try loses is a
            small share.
        trial: and the draft tokens of a row in such a try.
        iterations: the plan is for so many; None for as many as a call does.
        gain: how many times as many tokens it promises to emit in a time as no draft.
    """

    size: int | None
    costs: tuple[float, ...] | None = None
    rest: int = 0
    trial: int = 0
    iterations: int | None = None
    gain: float = 1.0


WHOLE = Plan(None)
"""Whole drafts, whatever they take."""
NOTHING = Plan(0)
"""No draft."""


class AcceptanceMeans(NamedTuple):
    """Running means of an iteration's row.

    Attributes:
        accepted: draft tokens accepted.
        stopped: how often fewer were accepted than were asked for.
    """

    accepted: float
    stopped: float

    @classmethod
    def of(cls, chance: float) -> AcceptanceMeans:
        """As if drafts so far had been accepted with this chance, of each token."""
        return cls(_FIRST_STOPPED * chance / (1 - chance), _FIRST_STOPPED)

    @property
    def chance(self) -> float:
        """Of a draft token to be accepted after accepted ones."""
        return self.accepted / max(self.accepted + self.stopped, 1e-9)

    def updated(self, accepted: float, stopped: float, weight: float) -> AcceptanceMeans:
        """After an iteration of these means."""
        return AcceptanceMeans(
            self.accepted + weight * (accepted - self.accepted),
            self.stopped + weight * (stopped - self.stopped),
        )


class AcceptanceHistory:
    """How the drafts of a generator's batches were accepted; batches of many threads share it: any
    thread's figures are as good.

    Args:
        chance: of a draft token, before the first batch.
    """

    def __init__(self, chance: float) -> None:
        self.acceptance = AcceptanceMeans.of(chance)
        self.rested = 0  # iterations since something was drafted


class Planning:
    """Decides how much to draft.

    Attributes:
        resumes: an iteration may draft after one that did not, in the same batch.
    """

    resumes = True

    def plan(self, live: int, chance: float) -> Plan:
        """For ``live`` rows and the chance of a draft token to be accepted after accepted ones."""
        raise NotImplementedError

    def probe(self, live: int) -> Plan | None:
        """What to do before a draft, to learn what iterations take; None for nothing."""
        return None

    def observe(self, done: Iteration, asked: int) -> None:
        """An iteration was timed. ``asked``: draft tokens of a row that the plan had."""


class OnePlan(Planning):
    """One plan for a whole batch, where the output depends on what is drafted: it follows from how
    many sentences a full batch has, not from those that are there or from what was accepted.

    Args:
        planning: makes it.
        sentences: of a full batch.
        chance: of a draft token to be accepted after accepted ones.
    """

    def __init__(self, planning: Planning, sentences: int, chance: float) -> None:
        self.resumes = planning.resumes
        plan = planning.plan(sentences, chance)
        self._plan = NOTHING if plan.size == 0 else plan

    def plan(self, live: int, chance: float) -> Plan:
        """The plan, for any rows and any chance."""
        return self._plan


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


class DraftBudget:
    """How many tokens a row may draft in the next iteration of one batch.

    Where drafts do not pay, one is tried now and then, rarely enough to cost little time, and as
    the first of a batch.

    Attributes:
        over: nothing more is drafted in this batch. A drafter that is a model would have all to
            read that was accepted since, so its drafts begin with the batch or never.

    Args:
        planning: decides; None for whole drafts.
        history: how drafts were accepted so far.
        ends_early: a drafter that drafts fewer tokens than it is asked for expects the rest to be
            rejected; else it has no more.
    """

    def __init__(
        self,
        planning: Planning | None,
        history: AcceptanceHistory | None = None,
        ends_early: bool = False,
    ) -> None:
        self.planning = planning
        self.history = history or AcceptanceHistory(0.5)
        self.ends_early = ends_early
        self.acceptance = self.history.acceptance
        self.asked: int | None = None
        self.probes = False
        self.rested = self.history.rested
        self.over = False
        self.begun = 0  # iterations of this batch

    def plan(self, live: int) -> Plan:
        """What ``live`` rows draft now."""
        if self.planning is None:
            return WHOLE
        plan = NOTHING if self.over else self._plan(self.planning, live)
        self.probes = plan.size == 0 and plan.iterations is not None
        self.over = plan.size == 0 and not self.planning.resumes and not self.probes
        self.asked = plan.size
        return plan

    def _plan(self, planning: Planning, live: int) -> Plan:
        plan = planning.plan(live, self.acceptance.chance)
        if plan.size != 0:
            return planning.probe(live) or plan
        tries = plan.trial > 0 and self.begun == 0 and self.rested >= plan.rest
        return Plan(plan.trial, iterations=1) if tries else NOTHING

    def learn(self, iteration: Iteration) -> None:
        """An iteration is over, or several without drafts."""
        self.begun += iteration.times
        if self.planning is not None and self.asked is not None:
            self.planning.observe(iteration, self.asked)
        if self.asked == 0:
            self.rested += 0 if self.probes else iteration.times
            return
        accepted, stopped, rows = self.outcomes(iteration)
        if rows == 0:
            return
        trial, self.rested = self.rested > 0, 0
        weight = _TRIAL_FORGETS if trial else FORGETS
        self.acceptance = self.acceptance.updated(accepted / rows, stopped / rows, weight)

    def outcomes(self, iteration: Iteration) -> tuple[int, int, int]:
        """(draft tokens accepted, rows with fewer than were expected, all rows) of those rows for
        which something was drafted, or might have been."""
        accepted = stopped = rows = 0
        columns = zip(iteration.accepted, iteration.proposed, iteration.done)
        for kept, proposed, done in columns:
            if not self.ends_early and proposed == 0:
                continue
            wanted = self.asked if self.ends_early and self.asked is not None else proposed
            accepted += kept
            stopped += not done and kept < wanted
            rows += 1
        return accepted, stopped, rows

    def close(self) -> None:
        """The batch is over; later ones begin with what was learnt."""
        self.history.acceptance, self.history.rested = self.acceptance, self.rested
