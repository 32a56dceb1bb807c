"""Where the tokens of a block are: their positions, their cache slots, and what they may see."""

from __future__ import annotations

from typing import List, NamedTuple, Optional

import torch
from torch import Tensor


def first_slots(most: int) -> int:
    """Cache slots prepared for every row, which may need up to ``most``; the cache grows later."""
    return min(most, 63)


class Layout(NamedTuple):
    """All that a backend knows about the places of a block of W tokens.

    Attributes:
        positions: long [B, W], which row of the position table each token gets.
        slots: long [B, W], the cache slot that takes its keys and values.
        upto: cache slots that attention looks at, T; larger than every slot.
        run_from: the first slot, where all rows write one and the same run of slots; else None.
        tail: bool [B, W, W] for a tree: token w sees token v of the block (itself included).
            None where token w sees the slots up to its own.
        base: long [B], for a tree the committed slots of each row, which all its tokens see.
        seen: bool [B, W, T], the slots that each token sees, itself included, where slots are taken
            in any order; None elsewhere.
    """

    positions: Tensor
    slots: Tensor
    upto: int
    run_from: Optional[int] = None
    tail: Optional[Tensor] = None
    base: Optional[Tensor] = None
    seen: Optional[Tensor] = None

    @classmethod
    def scattered(cls, positions: Tensor, slots: Tensor, seen: Tensor) -> Layout:
        """Tokens anywhere in the row; arguments as the attributes. Entries of a row may share a
        slot only where nothing ever looks at it."""
        return cls(positions, slots, seen.size(2), seen=seen)

    @classmethod
    def at(cls, positions: Tensor, last_cpu: List[int]) -> Layout:
        """Tokens whose slots are their positions.

        Args:
            positions: long [B, W], ascending by one; a row with fewer tokens may repeat its first.
            last_cpu: the positions of the last column as Python ints.
        """
        upto = max(last_cpu) + 1
        even = upto == min(last_cpu) + 1
        return cls(positions, positions, upto, upto - positions.size(1) if even else None)

    @classmethod
    def chain(cls, lengths: Tensor, lengths_cpu: List[int], width: int) -> Layout:
        """A block of ``width`` tokens after ``lengths`` (long [B]) committed ones."""
        return cls.at(causal_horizon(lengths, width), [have + width - 1 for have in lengths_cpu])

    @classmethod
    def tree(cls, lengths: Tensor, lengths_cpu: List[int], parents: Tensor) -> Layout:
        """The last accepted token, then a tree of draft tokens.

        Args:
            lengths, lengths_cpu: committed slots; the last accepted token takes the next one.
            parents: long [B, N], as in ``DraftTree``.
        """
        width = parents.size(1) + 1
        slots = causal_horizon(lengths, width)
        tail = ancestor_mask(parents)
        positions = lengths.unsqueeze(1) + tail.sum(2) - 1
        upto = max(lengths_cpu) + width
        even = max(lengths_cpu) == min(lengths_cpu)
        return cls(positions, slots, upto, upto - width if even else None, tail, lengths)

    @property
    def in_order(self) -> bool:
        """Whether the positions are the slots."""
        return self.tail is None and self.seen is None

    def mask(self) -> Optional[Tensor]:
        """Bool [B, 1, W, upto], True where attention is allowed; None where all slots are seen."""
        if self.seen is not None:
            return self.seen.unsqueeze(1)
        if self.tail is None:
            alone = self.run_from is not None and self.slots.size(1) == 1
            return None if alone else horizon_mask(self.slots, self.upto)
        assert self.base is not None
        rows, width, _ = self.tail.shape
        seen = torch.arange(self.upto, device=self.slots.device) < self.base.unsqueeze(1)
        seen = seen.unsqueeze(1).expand(rows, width, self.upto)
        at = self.slots.unsqueeze(1).expand(rows, width, width)
        return seen.scatter(2, at, self.tail).unsqueeze(1)


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


def ancestor_mask(parents: Tensor) -> Tensor:
    """Which tokens of a tree each one descends from.

    Args:
        parents: long [B, N]; -1 is the root, which stands before the tree's N tokens.

    Returns:
        bool [B, N + 1, N + 1]; entry [b, w, v]: v is w or an ancestor of w, where 0 is the root.
    """
    rows, count = parents.shape
    seen = torch.zeros(rows, count + 1, count + 1, dtype=torch.bool, device=parents.device)
    seen[:, 0, 0] = True
    each = torch.arange(rows, device=parents.device)
    for node in range(count):
        seen[:, node + 1] = seen[each, parents[:, node] + 1]
        seen[:, node + 1, node + 1] = True
    return seen
