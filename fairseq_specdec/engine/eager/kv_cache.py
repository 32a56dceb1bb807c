"""One preallocated key/value cache with ragged rows; a rollback only changes a length."""

import torch
from torch import Tensor

from ..layout import Layout


class KVCache:
    """Keys and values of every layer of one decoder, for B rows of different lengths.

    ``lengths[b]`` slots of row b are committed; slots after them are stale and are
    overwritten by later writes, so rolling back a rejected draft is only a smaller ``lengths[b]``.
    Stale slots are finite numbers (never uninitialised memory), because a masked NaN would still
    make the attention NaN.

    The buffers outlive a batch: ``start`` reuses them when they are large enough. Each head's slots
    are contiguous, so that attention is one batch of products over all heads of all rows.

    Args:
        heads: H, attention heads of a layer.
        dim: D, size of a key of one head.
    """

    def __init__(self, layers: int, heads: int, dim: int) -> None:
        self.layers = layers
        self.heads = heads
        self.dim = dim
        self.slots: list[Tensor] = []  # per layer keys and values [2, rows, H, capacity, D]
        self.lengths = torch.zeros(0, dtype=torch.long)
        self.lengths_cpu: list[int] = []
        self._flat: Tensor | None = None

    @property
    def capacity(self) -> int:
        return self.slots[0].size(3) if self.slots else 0

    def start(self, rows: int, capacity: int, like: Tensor) -> None:
        """Empty the cache for a new batch of ``rows`` rows of up to ``capacity`` slots.

        Args:
            rows: B.
            capacity: first guess; ``reserve`` grows it.
            like: a tensor of the dtype and device to use.
        """
        fits = (
            len(self.slots) == self.layers > 0
            and self.slots[0].size(1) >= rows
            and self.slots[0].size(3) >= capacity
            and self.slots[0].dtype == like.dtype
            and self.slots[0].device == like.device
        )
        if not fits:
            shape = (2, rows, self.heads, max(capacity, self.capacity), self.dim)
            self.slots = [like.new_zeros(shape) for _ in range(self.layers)]
        self.lengths = torch.zeros(rows, dtype=torch.long, device=like.device)
        self.lengths_cpu = [0] * rows

    def reserve(self, slots: int) -> None:
        """Make room for ``slots`` slots in every row, doubling the capacity when it must grow."""
        old = self.capacity
        if slots <= old or not self.layers:
            return
        grown = max(slots, 2 * old)
        for i, buffer in enumerate(self.slots):
            larger = buffer.new_zeros(*buffer.shape[:3], grown, self.dim)
            larger[:, :, :, :old] = buffer
            self.slots[i] = larger

    def place(self, layout: Layout) -> None:
        """Set the slots of the next writes, in all layers; ``layout.upto`` slots must be there."""
        self._from, self._upto = layout.run_from, layout.upto
        if layout.run_from is None and self.slots:
            _, rows, heads, capacity, _ = self.slots[0].shape
            first = torch.arange(2 * rows * heads, device=layout.slots.device) * capacity
            first = first.view(2, rows, heads, 1)[:, : layout.slots.size(0)]
            self._flat = (first + layout.slots.unsqueeze(1)).view(-1)

    def write(self, layer: int, entries: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys and values in the slots that ``place`` set, and return those to attend to.
        ``entries``: [B, W, 2 H D], keys of all heads, then values. Returns keys and values, each
        [B, H, T, D], views of the buffer's first ``upto`` slots."""
        buffer = self.slots[layer]
        rows, width = entries.size(0), entries.size(1)
        entries = entries.unflatten(2, (2, self.heads, self.dim)).permute(2, 0, 3, 1, 4)
        if self._from is not None:
            buffer[:, :rows, :, self._from : self._from + width] = entries
        else:
            assert self._flat is not None
            flat = buffer.view(-1, self.dim)
            flat.index_copy_(0, self._flat, entries.reshape(-1, self.dim))
        seen = buffer[:, :rows, :, : self._upto]
        return seen[0], seen[1]

    def commit(self, lengths: Tensor, lengths_cpu: list[int]) -> None:
        """Set the committed lengths (long [B] on the cache's device, and as Python ints): the
        rollback."""
        self.lengths = lengths
        self.lengths_cpu = lengths_cpu

    def select(self, rows: Tensor, rows_cpu: list[int]) -> None:
        """Keep only these rows (ascending row numbers; on the device and as Python ints)."""
        live = max((self.lengths_cpu[r] for r in rows_cpu), default=0)
        for buffer in self.slots:
            kept = buffer[:, :, :, :live].index_select(1, rows)
            buffer[:, : len(rows_cpu), :, :live] = kept
        self.lengths = self.lengths.index_select(0, rows)
        self.lengths_cpu = [self.lengths_cpu[r] for r in rows_cpu]
