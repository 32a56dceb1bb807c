"""Where the tokens of a block are: their positions, their cache slots, and what they may see."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


def first_slots(needed: int) -> int:
    """Cache slots prepared for every row, which may need up to so many; the cache grows later."""
    return min(needed, 63)


class Layout(NamedTuple):
    """All that a backend knows about the places of a block of W tokens.

    Attributes:
        positions: long [B, W], which row of the position table each token gets.
        slots: long [B, W], the cache slot that takes its keys and values.
        upto: cache slots that attention looks at, T; larger than every slot.
        run_from: the first slot, where all rows write one and the same run of slots; else None.
        seen: bool [B, W, T], the slots that each token sees, itself included, where slots are taken
            in any order; None where token w sees the slots up to its own.
    """

    positions: Tensor
    slots: Tensor
    upto: int
    run_from: int | None = None
    seen: Tensor | None = None

    @classmethod
    def scattered(cls, positions: Tensor, slots: Tensor, seen: Tensor) -> Layout:
        """Tokens anywhere in the row; arguments as the attributes. Entries of a row may share a
        slot only where nothing ever looks at it."""
        return cls(positions, slots, seen.size(2), seen=seen)

    @classmethod
    def at(cls, positions: Tensor, last_cpu: list[int]) -> Layout:
        """Tokens whose slots are their positions.

        Args:
            positions: long [B, W], ascending by one; a row with fewer tokens may repeat its first.
            last_cpu: the positions of the last column as Python ints.
        """
        upto = max(last_cpu) + 1
        even = upto == min(last_cpu) + 1
        return cls(positions, positions, upto, upto - positions.size(1) if even else None)

    @classmethod
    def chain(cls, lengths: Tensor, lengths_cpu: list[int], width: int) -> Layout:
        """A block of ``width`` tokens after ``lengths`` (long [B]) committed ones."""
        return cls.at(causal_horizon(lengths, width), [have + width - 1 for have in lengths_cpu])

    @property
    def in_order(self) -> bool:
        """Whether the positions are the slots."""
        return self.seen is None

    def mask(self) -> Tensor | None:
        """Bool [B, 1, W, upto], True where attention is allowed; None where all slots are seen."""
        if self.seen is not None:
            return self.seen.unsqueeze(1)
        alone = self.run_from is not None and self.slots.size(1) == 1
        return None if alone else horizon_mask(self.slots, self.upto)


def causal_horizon(start: Tensor, width: int) -> Tensor:
    """Last cache slot that each query of a block may attend to, leftward attention.

    Args:
        start: long [B], slot of the first query of each row.
        width: queries per row, W.

    Returns:
        long [B, W]: query w of row b sees the slots 0 .. start[b] + w.
    """
    if width == 1:
        return start.unsqueeze(1)
    return start.unsqueeze(1) + torch.arange(width, device=start.device)


def horizon_mask(horizon: Tensor, slots: int) -> Tensor:
    """Attention mask from horizons.

    Args:
        horizon: long [B, W], last slot that each query may attend to.
        slots: number of cache slots looked at, T.

    Returns:
        bool [B, 1, W, T], True where attention is allowed.
    """
    reach = torch.arange(slots, device=horizon.device)
    return (reach <= horizon.unsqueeze(-1)).unsqueeze(1)
