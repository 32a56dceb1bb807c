"""What decodes the chains of a batch, one hypothesis a sentence, and what it reports."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Protocol, Sequence, Tuple

from fairseq_specdec.engine.draft_tree import DraftTree

from .stats import DecodingStats


class RowOutcome(NamedTuple):
    """What an iteration did for one row.

    Attributes:
        size: tokens added, 1 or more.
        done: the sentence ended.
        accepted: draft tokens among those added.
        broken: a token was added that has no log-probability.
        proposed: draft tokens verified.
        draft, choices: these tokens, and the verifier's best ones at the tokens added; empty
            without a trace.
    """

    size: int
    done: int
    accepted: int
    broken: int
    proposed: int
    draft: Sequence[int] = ()
    choices: Sequence[int] = ()


class Round(NamedTuple):
    """An iteration of all live rows.

    Attributes:
        rows: outcomes.
        passes: of a small model that drafts token by token; 0 for other drafters.
        seconds: as in ``Iteration``; zeros where nothing was timed.
    """

    rows: List[RowOutcome]
    passes: int = 0
    seconds: Tuple[float, float, float] = (0.0, 0.0, 0.0)


def count(stats: DecodingStats, rows: List[RowOutcome]) -> None:
    """Add an iteration to the statistics."""
    # A row that emitted no more than it accepted ended inside its draft.
    cut = sum(row.accepted < min(row.proposed, row.size) for row in rows)
    accepted = sum(row.accepted for row in rows)
    drafted = sum(row.proposed > 0 for row in rows)
    for row in rows:
        # A sentence that ended inside its draft has no bonus token, and judged no more.
        judged = row.accepted + (row.size > row.accepted < row.proposed)
        stats.judged[judged, row.accepted] += 1
    proposed = sum(row.proposed for row in rows)
    stats.iterations += len(rows)
    stats.emitted += sum(row.size for row in rows)
    stats.accepted += accepted
    stats.scored += len(rows) + proposed
    stats.drafted += proposed
    stats.rollbacks += cut
    stats.undrafted += len(rows) - drafted


class Chains(Protocol):
    """Decodes a batch several iterations at a time, as far as it can."""

    def run(self, most: int) -> Tuple[List[Round], Optional[DraftTree]]:
        """Do iterations: at most ``most``, until a row ends or the general step must decide.

        Returns:
            (the iterations, whose tokens are in the hypotheses; where there are none, the draft
            that the general step is to verify, or None for it to draft too).
        """
