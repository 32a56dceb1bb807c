"""How much a drafter is asked for."""

from typing import NamedTuple


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
