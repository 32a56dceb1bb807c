"""``calm``: nothing is drafted; tokens leave the decoder at the first exit that is sure of them.

Schuster et al. 2022, the system that Kim et al. 2023 compare with in section 7.2.2.
"""

import math
from typing import Any

from fairseq_specdec.acceptance import AcceptanceRule
from fairseq_specdec.acceptance.base import Acceptance
from fairseq_specdec.drafting import Drafter, NoDrafter
from fairseq_specdec.engine.draft import Draft
from fairseq_specdec.engine.exits import ExitOptions, exits_of
from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.errors import UsageError

from .base import Setup, Strategy


class FirstSureExit(AcceptanceRule):
    """Takes the exit's likeliest token; nothing is drafted, prefixes neither."""

    def accept(self, draft: Draft, scores: Scores) -> Acceptance:
        return Acceptance(draft.sizes, scores.best()[:, 0])


def _rule(settings: Any) -> AcceptanceRule:
    return FirstSureExit()


def _drafter(setup: Setup) -> Drafter:
    if len(setup.models) > 1:
        raise UsageError(
            "--path",
            f"{len(setup.models)} models, which would leave at different layers under "
            "--strategy calm",
            "give one of them, or use --strategy greedy",
        )
    exits_of(setup.models[0], "greedy")
    return NoDrafter()


def _exits(settings: Any) -> ExitOptions:
    threshold, decay = settings.exit_threshold, settings.exit_decay
    # No probability reaches 1 but by rounding.
    never = threshold == 1 and decay is None
    return ExitOptions(math.inf if never else threshold, settings.exit_confidence, decay)


CALM = Strategy(_drafter, _rule, exits=_exits, stated=frozenset({"exit_threshold"}))
