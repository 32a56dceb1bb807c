"""Which layers of a deep model a shallower one takes."""

from __future__ import annotations

from typing import List


def evenly_spaced(keep: int, total: int, single: int) -> List[int]:
    """``keep`` of ``total`` layers, counted from 0, evenly from the first to the last.

    Args:
        keep: how many, 1 or more.
        total: of how many.
        single: the one that is taken where ``keep`` is 1. A copy of a whole model keeps the first,
            whose input is that of the deep model; a drafter takes the last, whose output is.
    """
    if keep == 1:
        return [single]
    return [round(index * (total - 1) / (keep - 1)) for index in range(keep)]
