"""The beam searches of one batch, whatever runs the model."""

from __future__ import annotations

from typing import List, NamedTuple, Protocol, Sequence


class Progress(NamedTuple):
    """How far a sentence is.

    Attributes:
        done: nothing will follow.
        passes: of the verifier so far.
        steps: of the search so far.
        scored: prefixes so far.
        drafted: prefixes that were scored so far though nothing waited for them.
        used: those of them that hypotheses came to.
        live: hypotheses that have not ended.
    """

    done: bool = False
    passes: int = 0
    steps: int = 0
    scored: int = 0
    drafted: int = 0
    used: int = 0
    live: int = 1


class EndedHypothesis(NamedTuple):
    """A hypothesis that ended.

    Attributes:
        tokens: before </s>.
        totals: log-probabilities of the first 1, 2, ... tokens; </s> is the last.
    """

    tokens: List[int]
    totals: List[float]


class Prefix(NamedTuple):
    """A prefix of outputs.

    Attributes:
        tokens: after the start symbol.
        scored: what may follow it is known.
        kept: it leads to a live hypothesis, or follows one.
    """

    tokens: List[int]
    scored: bool
    kept: bool


class Beams(Protocol):
    """Searches of the sentences of one batch, which are named by their rows in it."""

    def run(self, rows: Sequence[int], max_passes: int) -> List[Progress]:
        """Do passes of the verifier, at most so many, until every sentence is done. Returns how far
        each of them is. Raises NoTokenError: a sentence cannot go on."""

    def agreed(self, row: int) -> List[int]:
        """The tokens that all its hypotheses, live and ended, begin with."""

    def live(self, row: int) -> List[Prefix]:
        """Its live hypotheses, best first; those that are not scored are waited for."""

    def draft(self, row: int) -> List[Prefix]:
        """The prefixes that its last pass scored though nothing waited for them, parents first."""

    def ended(self, row: int) -> List[EndedHypothesis]:
        """Its hypotheses that have ended, in the order in which they did."""
