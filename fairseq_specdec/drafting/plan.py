"""How much a drafter is asked for."""

from typing import NamedTuple


class Plan(NamedTuple):
    """What an iteration drafts.

    Attributes:
        size: draft tokens of a row; 0 for none, None for as many as the drafter gives.
        costs: ``size`` + 1 numbers: what it takes longer to verify 0, 1, ... draft tokens of a row
            than to verify none, in tokens that are emitted in that time. None where only ``size``
            counts.
        low, high: the plan holds while the chance of a draft token to be accepted is from ``low``
            to below ``high``.
        rest: where ``size`` is 0: iterations without drafts in whose time what a try loses is a
            small share.
        trial: and the draft tokens of a row in such a try.
        iterations: do at most so many at once, as passes without drafts are to be timed; None for
            as many as there are.
        gain: how many times as many tokens it promises to emit in a time as no draft.
    """

    size: int | None
    costs: tuple[float, ...] | None = None
    low: float = -1.0
    high: float = 2.0
    rest: int = 0
    trial: int = 0
    gain: float = float("inf")
    iterations: int | None = None


WHOLE = Plan(None)
"""Whole drafts, whatever they take."""
NOTHING = Plan(0)
"""No draft."""
