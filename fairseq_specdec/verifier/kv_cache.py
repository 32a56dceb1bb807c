"""One preallocated key/value cache with ragged rows; rollback moves a length and costs nothing."""

from __future__ import annotations

from typing import List, Optional, Tuple

import torch
from torch import Tensor


class KVCache:
    """Keys and values of every layer of one decoder, for B rows of different lengths.

    A slot holds the position of the same number. ``lengths[b]`` slots of row b are committed;
    whatever stands behind them is stale and is overwritten by later writes, so rolling back a
    rejected draft is only a smaller ``lengths[b]``. Stale slots are finite numbers (never
    uninitialised memory), because a masked NaN would still poison the attention.

    The buffers outlive a batch: ``start`` reuses them when they are large enough. Each head's slots
    lie side by side, so that all heads of all rows are one batch of products to attention.

    Args:
        layers: decoder layers.
        heads: H, attention heads of a layer.
        dim: D, size of a key of one head.
    """

    def __init__(self, layers: int, heads: int, dim: int) -> None:
        self.layers = layers
        self.heads = heads
        self.dim = dim
        self.slots: List[Tensor] = []  # per layer keys and values [2, rows, H, capacity, D]
        self.lengths = torch.zeros(0, dtype=torch.long)
        self.host_lengths: List[int] = []
        self._flat: Optional[Tensor] = None

    @property
    def rows(self) -> int:
        return len(self.host_lengths)

    @property
    def capacity(self) -> int:
        return self.slots[0].size(3) if self.slots else 0

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
            and self.slots[0].size(1) >= rows
            and self.slots[0].size(3) >= capacity
            and self.slots[0].dtype == like.dtype
            and self.slots[0].device == like.device
        )
        if not fits:
            shape = (2, rows, self.heads, max(capacity, self.capacity), self.dim)
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
            larger = buffer.new_zeros(*buffer.shape[:3], grown, self.dim)
            larger[:, :, :, :old] = buffer
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
            _, rows, heads, capacity, _ = self.slots[0].shape
            first = torch.arange(2 * rows * heads, device=slot.device) * capacity
            first = first.view(2, rows, heads, 1)[:, : slot.size(0)]
            self._flat = (first + slot.unsqueeze(1)).view(-1)

    def write(self, layer: int, entries: Tensor, upto: int) -> Tuple[Tensor, Tensor]:
        """Store keys and values where ``aim`` said, and return what attention reads.

        Args:
            layer: index of the layer.
            entries: [B, W, 2 H D], keys of all heads, then values.
            upto: slots to return, T.

        Returns:
            Keys and values, each [B, H, T, D], views of the buffer.
        """
        buffer = self.slots[layer]
        rows, width = entries.size(0), entries.size(1)
        entries = entries.unflatten(2, (2, self.heads, self.dim)).permute(2, 0, 3, 1, 4)
        if self._from is not None:
            buffer[:, :rows, :, self._from : self._from + width] = entries
        else:
            assert self._flat is not None
            flat = buffer.view(-1, self.dim)
            flat.index_copy_(0, self._flat, entries.reshape(-1, self.dim))
        seen = buffer[:, :rows, :, :upto]
        return seen[0], seen[1]

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
            kept = buffer[:, :, :, :live].index_select(1, keep)
            buffer[:, : len(host_keep), :, :live] = kept
        self.lengths = self.lengths.index_select(0, keep)
        self.host_lengths = [self.host_lengths[r] for r in host_keep]
