"""The beam searches of one batch, whatever runs the model."""

from __future__ import annotations

from typing import List, NamedTuple, Protocol, Sequence


class Progress(NamedTuple):
    """How far a sentence is.

    Attributes:
        done: nothing will follow.
        passes: of the verifier so far.
        steps: of the search so far.
    """

    done: bool
    passes: int
    steps: int


class EndedHypothesis(NamedTuple):
    """A hypothesis that ended.

    Attributes:
        tokens: before </s>.
        totals: log-probabilities of the first 1, 2, ... tokens; </s> is the last.
    """

    tokens: List[int]
    totals: List[float]


class Beams(Protocol):
    """Searches of the sentences of one batch, which are named by their rows in it."""

    def run(self, rows: Sequence[int], most: int) -> None:
        """Do passes of the verifier, at most so many, until every sentence is done.

        Args:
            rows: the sentences that are not done.
            most: 1 or more; what was drafted is scored in the first pass.

        Raises:
            NoTokenError: a sentence cannot go on.
        """

    def progress(self, row: int) -> Progress:
        """How far a sentence is."""

    def live(self, row: int) -> List[List[int]]:
        """The tokens of its hypotheses that have not ended, best first."""

    def draft(self, row: int, hypothesis: int, tokens: Sequence[int]) -> None:
        """Score these tokens in the next pass too, each after the one before, behind a live
        hypothesis."""

    def agreed(self, row: int) -> List[int]:
        """The tokens that all its hypotheses, live and ended, begin with."""

    def ended(self, row: int) -> List[EndedHypothesis]:
        """Its hypotheses that have ended, in the order in which they did."""
