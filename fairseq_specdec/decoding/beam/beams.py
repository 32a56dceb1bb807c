"""The beam searches of one batch, whatever runs the model."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Progress(NamedTuple):
    """How far a sentence is."""

    done: bool = False  # nothing will follow
    passes: int = 0  # of the verifier so far
    steps: int = 0  # of the search so far
    scored: int = 0  # prefixes so far
    drafted: int = 0  # prefixes that were scored so far though nothing waited for them
    used: int = 0  # those of them that hypotheses came to


class EndedHypothesis(NamedTuple):
    """A hypothesis that ended."""

    tokens: list[int]  # before </s>
    totals: list[float]  # log-probabilities of the first 1, 2, ... tokens; </s> is the last


class Prefix(NamedTuple):
    """A prefix of outputs."""

    tokens: list[int]  # after the start symbol
    scored: bool  # what may follow it is known
    kept: bool  # it leads to a live hypothesis, or follows one


class Beams(Protocol):
    """Searches of the sentences of one batch, which are named by their rows in it."""

    def run(self, rows: Sequence[int], max_passes: int) -> list[Progress]:
        """Do passes of the verifier, at most so many, until every sentence is done. Returns how far
        each of them is. Raises NoTokenError: a sentence cannot go on."""

    def agreed(self, row: int) -> list[int]:
        """The tokens that all its hypotheses, live and ended, begin with."""

    def live(self, row: int) -> list[Prefix]:
        """Its live hypotheses, best first; those that are not scored are waited for."""

    def draft(self, row: int) -> list[Prefix]:
        """The prefixes that its last pass scored though nothing waited for them, parents first."""

    def ended(self, row: int) -> list[EndedHypothesis]:
        """Its hypotheses that have ended, in the order in which they did."""
