"""How much to draft: as much as pays, where that changes nothing but the time."""

from __future__ import annotations

from typing import Optional

from .pass_cost import LONGEST, PassCost

# Expected rejected tokens that cost a CPU about the time that a shorter draft would save.
CPU_SPARE = 24

# Weight of the newest iteration in the running means of accepted and failed drafts.
FORGETS = 0.2

# Before the first iteration: draft tokens accepted, and drafts cut short, in a row's iteration.
FIRST_ACCEPTED, FIRST_FAILED = 1.0, 1 / 3

# Where fewer draft tokens than this are accepted in a row's iteration, drafting costs time.
PAYS = 0.3

# Iterations without a draft until the next try: doubled after every try that failed.
SHORTEST_PAUSE, LONGEST_PAUSE = 2, 16

# A limit below this would not pay for the drafter: at 32 live sentences of the demo pair, drafts of
# one or two tokens took 1.3 times as long as no drafts, at 8 sentences drafts of five as long.
SHORTEST = 3

# Where nothing was drafted, the drafter has yet to read what was accepted since: drafts must make
# an iteration so many times as fast to begin again.
AGAIN = 1.5

# The first draft of a batch is a try, which costs time where drafts do not pay: it must promise to
# make an iteration so many times as fast. (The demo pair promises 1.01 in batches of two.)
TRY = 1.1

# The chance of a draft token by which the first draft is sized; after that its outcome counts.
UNTRIED = 0.97


class DraftBudget:
    """How many tokens a row may draft in the next iteration of one batch.

    On a CPU, verifying more tokens takes longer as soon as there are several rows. With many live
    sentences, rejected tokens cost more time than accepted ones save. Where drafts keep failing, it
    is faster to draft seldom. Only counts decide, never measured times, so that a run can be
    repeated.

    Args:
        spare: most expected rejected tokens of a verification, of all sentences together; None
            for no limit.
        pauses: pause where drafts keep failing.
        cost: of several rows draft as much as pays by it, whatever ``spare`` says.
    """

    def __init__(self, spare: Optional[int], pauses: bool, cost: Optional[PassCost] = None) -> None:
        self.cost = cost
        self.resting = False  # nothing was drafted in the last iteration
        self.tried = False  # something was drafted
        self.spare = spare
        self.pauses = pauses
        self.accepted, self.failed = FIRST_ACCEPTED, FIRST_FAILED
        self.pause = SHORTEST_PAUSE
        self.paused = 0

    @property
    def min_accepted(self) -> float:
        """The running mean of accepted tokens at which drafting pays; it is never below -1."""
        return PAYS if self.pauses else -1.0

    def most(self, live: int) -> Optional[int]:
        """Draft tokens that each of ``live`` rows may have now; None for any number.

        If each token is accepted with probability a after accepted ones, the j-th of a draft is
        rejected with probability 1 - a^j (the assumption of equation 1 of Leviathan et al. 2023,
        3.1, where a is alpha).
        """
        if self.paused > 0:
            return 0
        if self.cost is not None and live == 1 and not self.cost.alone:
            return 0
        chance = self.accepted / max(self.accepted + self.failed, 1e-9)
        if self.cost is not None and (live > 1 or self.resting):
            gain = AGAIN if self.resting else 1.0 if self.tried else TRY
            size = self.cost.best(live, chance if self.tried else UNTRIED, gain)
            self.resting = size == 0
            return size if live > 1 or self.resting else None
        if self.spare is None or live == 1:  # alone, a row costs little
            return None
        left, reached = self.spare / live, 1.0
        for size in range(LONGEST):
            reached *= chance
            left -= 1 - reached
            if left < 0:
                return size if size >= SHORTEST else 0
        return None

    @property
    def rests(self) -> int:
        """Where ``most`` gave 0: how many iterations after that one have no draft, either, if no
        row ends before."""
        return self.paused - 1 if self.paused > 0 else LONGEST

    def learn(self, drafted: int, accepted: int, failed: int) -> None:
        """An iteration is over.

        Args:
            drafted: rows that had a draft.
            accepted: draft tokens accepted, of all rows.
            failed: rows whose draft was not accepted to its end.
        """
        if drafted == 0:
            self.paused = max(self.paused - 1, 0)
            return
        first = self.cost is not None and not self.tried
        self.tried = True
        if first:
            self.accepted, self.failed = accepted / drafted, failed / drafted
        self.accepted += FORGETS * (accepted / drafted - self.accepted)
        self.failed += FORGETS * (failed / drafted - self.failed)
        if self.accepted >= self.min_accepted:
            self.pause = SHORTEST_PAUSE
            return
        self.paused = self.pause
        self.pause = min(2 * self.pause, LONGEST_PAUSE)
