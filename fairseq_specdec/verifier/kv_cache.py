"""One preallocated key/value cache with ragged rows; rollback moves a length and costs nothing."""

from __future__ import annotations

from typing import List, Optional

import torch
from torch import Tensor


class KVCache:
    """Keys and values of every layer of one decoder, for B rows of different lengths.

    A slot holds the position of the same number. ``lengths[b]`` slots of row b are committed;
    whatever stands behind them is stale and is overwritten by later writes, so rolling back a
    rejected draft is only a smaller ``lengths[b]``. Stale slots are finite numbers (never
    uninitialised memory), because a masked NaN would still poison the attention.

    The buffers outlive a batch: ``start`` reuses them when they are large enough.

    Args:
        layers: decoder layers.
        width: size of one slot, keys and values side by side (2 C).
    """

    def __init__(self, layers: int, width: int) -> None:
        self.layers = layers
        self.width = width
        self.slots: List[Tensor] = []  # per layer [rows, capacity, width]
        self.lengths = torch.zeros(0, dtype=torch.long)
        self.host_lengths: List[int] = []
        self._flat: Optional[Tensor] = None

    @property
    def rows(self) -> int:
        return len(self.host_lengths)

    @property
    def capacity(self) -> int:
        return self.slots[0].size(1) if self.slots else 0

    def nbytes(self) -> int:
        """Bytes held by the buffers."""
        return sum(x.numel() * x.element_size() for x in self.slots)

    def start(self, rows: int, capacity: int, like: Tensor) -> None:
        """Empty the cache for a new batch of ``rows`` rows of up to ``capacity`` slots.

        Args:
            rows: B.
            capacity: first guess; ``reserve`` grows it.
            like: a tensor of the dtype and device to use.
        """
        fits = (
            len(self.slots) == self.layers
            and self.slots[0].size(0) >= rows
            and self.slots[0].size(1) >= capacity
            and self.slots[0].dtype == like.dtype
            and self.slots[0].device == like.device
        )
        if not fits:
            shape = (rows, max(capacity, self.capacity), self.width)
            self.slots = [like.new_zeros(shape) for _ in range(self.layers)]
        self.lengths = torch.zeros(rows, dtype=torch.long, device=like.device)
        self.host_lengths = [0] * rows

    def reserve(self, slots: int) -> None:
        """Make room for ``slots`` slots in every row, doubling the capacity when it must grow."""
        old = self.capacity
        if slots <= old:
            return
        grown = max(slots, 2 * old)
        for i, buffer in enumerate(self.slots):
            larger = buffer.new_zeros(buffer.size(0), grown, self.width)
            larger[:, :old] = buffer
            self.slots[i] = larger

    def aim(self, slot: Tensor, contiguous_from: Optional[int]) -> None:
        """Say where the next writes go: the same place in every layer.

        Args:
            slot: long [B, W], target slot of each entry.
            contiguous_from: first slot, when every row writes the same run of slots; None
                otherwise.
        """
        self._from = contiguous_from
        if contiguous_from is None:
            base = torch.arange(slot.size(0), device=slot.device) * self.capacity
            self._flat = (slot + base.unsqueeze(1)).view(-1)

    def write(self, layer: int, entries: Tensor, upto: int) -> Tensor:
        """Store keys and values where ``aim`` said, and return what attention reads.

        Args:
            layer: index of the layer.
            entries: [B, W, 2C].
            upto: slots to return, T.

        Returns:
            [B, T, 2C], a view of the buffer.
        """
        buffer = self.slots[layer]
        rows, width = entries.size(0), entries.size(1)
        if self._from is not None:
            buffer[:rows, self._from : self._from + width] = entries
        else:
            assert self._flat is not None
            flat = buffer.view(-1, self.width)
            flat.index_copy_(0, self._flat, entries.reshape(-1, self.width))
        return buffer[:rows, :upto]

    def commit(self, lengths: Tensor, host_lengths: List[int]) -> None:
        """Set the committed lengths: the rollback.

        Args:
            lengths: long [B] on the cache's device.
            host_lengths: the same numbers as Python ints.
        """
        self.lengths = lengths
        self.host_lengths = host_lengths

    def prune(self, keep: Tensor, host_keep: List[int]) -> None:
        """Keep only some rows, in the given order.

        Args:
            keep: long [B'] row numbers, ascending.
            host_keep: the same numbers as Python ints.
        """
        live = max((self.host_lengths[r] for r in host_keep), default=0)
        for buffer in self.slots:
            buffer[: len(host_keep), :live] = buffer[:, :live].index_select(0, keep)
        self.lengths = self.lengths.index_select(0, keep)
        self.host_lengths = [self.host_lengths[r] for r in host_keep]
