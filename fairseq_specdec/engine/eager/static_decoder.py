"""Decoding over buffers that keep their addresses from batch to batch, for CUDA graphs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..graphs import Graphs, StaticCalls, bucket, row_bucket
from .attention import additive
from .decoder import DecoderSession, DecoderWeights
from .kv_cache import KVCache


class RowBuffer:
    """A tensor of which each row of a batch and each source position has a part, at one address
    from batch to batch, with room for more of both."""

    def __init__(self, row_dim: int, column_dim: int) -> None:
        self.dims = row_dim, column_dim
        self.tensor: Tensor | None = None

    def put(self, value: Tensor, fill: Any = None) -> bool:
        """Store what a batch begins with. ``fill``: where given, what the rows have at further
        positions, up to the bucket; other rows get zeros. Otherwise old, finite numbers stay there.
        Returns whether the buffer is at another address now."""
        row_dim, column_dim = self.dims
        sizes = list(value.shape)
        sizes[row_dim] = row_bucket(sizes[row_dim])
        sizes[column_dim] = bucket(sizes[column_dim])
        old = self.tensor
        fits = old is not None and (old.dtype, old.device) == (value.dtype, value.device)
        if old is not None and fits:
            fits = all(have >= size for have, size in zip(old.shape, sizes))
            sizes = [max(pair) for pair in zip(old.shape, sizes)]
        if not fits:
            self.tensor = value.new_zeros(sizes)
        elif fill is not None and self.tensor is not None:
            self.tensor.zero_()
        columns = value.size(column_dim)
        part = self.view(value.size(row_dim), bucket(columns))
        if fill is not None:
            part.fill_(fill)
        part.narrow(column_dim, 0, columns).copy_(value)
        return not fits

    def view(self, rows: int, columns: int) -> Tensor:
        """The part of the first rows and positions."""
        assert self.tensor is not None
        row_dim, column_dim = self.dims
        return self.tensor.narrow(row_dim, 0, rows).narrow(column_dim, 0, columns)

    def select(self, rows: Tensor, count: int) -> None:
        """Move these rows (``count`` ascending row numbers) to the front."""
        assert self.tensor is not None
        kept = self.tensor.index_select(self.dims[0], rows)
        self.tensor.narrow(self.dims[0], 0, count).copy_(kept)


class StaticCache(KVCache):
    """A ``KVCache`` that grows by buckets, with all else that a batch keeps for its rows.
    ``calls``: what was recorded over it; forgotten when a buffer moves."""

    def __init__(self, layers: int, heads: int, dim: int, graphs: Graphs) -> None:
        super().__init__(layers, heads, dim)
        self.calls = StaticCalls(graphs)
        self._buffers: dict[str, RowBuffer] = {}

    def start(self, rows: int, capacity: int, like: Tensor) -> None:
        before = self.slots
        super().start(row_bucket(rows), bucket(capacity), like)
        self.commit(self.lengths[:rows], [0] * rows)
        if self.slots is not before:
            self.calls.clear()

    def reserve(self, slots: int) -> None:
        before = self.capacity
        super().reserve(bucket(slots))
        if self.capacity != before:
            self.calls.clear()

    def keep(
        self, name: str, value: Tensor, row_dim: int, column_dim: int, fill: Any = None
    ) -> RowBuffer:
        """A buffer with something of the source, which ``select`` keeps in the order of the rows.

        Args:
            name: names it for later batches.
            value, fill: as for ``RowBuffer.put``.
            row_dim, column_dim: as in ``RowBuffer``.
        """
        buffer = self._buffers.setdefault(name, RowBuffer(row_dim, column_dim))
        if buffer.put(value, fill):
            self.calls.clear()
        return buffer

    def select(self, rows: Tensor, rows_cpu: list[int]) -> None:
        super().select(rows, rows_cpu)
        for buffer in self._buffers.values():
            buffer.select(rows, len(rows_cpu))


class BucketSession(DecoderSession):
    """A ``DecoderSession`` over the first rows of a cache, whatever batch they are of: what a graph
    is recorded with.

    Args:
        cross: for every layer keys and values of the source, each [2, R, H, S, D].
        cross_mask: [R, 1, 1, S], as ``additive`` gives it.
    """

    def __init__(
        self, weights: Any, cache: KVCache, cross: list[list[Tensor]], cross_mask: Tensor
    ) -> None:
        self.weights = weights
        self.cache = cache
        self.hidden_states = None
        self.cross = cross
        self.cross_mask = cross_mask


class StaticSession(DecoderSession):
    """A ``DecoderSession`` whose buffers keep their addresses from batch to batch.

    Attributes:
        cache: its cache.
        sources: S, source positions that are computed, the bucket of those that there are.
    """

    cache: StaticCache

    def __init__(
        self, weights: Any, cache: StaticCache, source: Tensor, padding_mask: Tensor | None
    ) -> None:
        super().__init__(weights, cache, source, padding_mask)
        rows, length = source.size(0), source.size(1)
        self.sources = bucket(length)
        self._cross = [
            [cache.keep(f"cross {i} {j}", both, 1, 3) for j, both in enumerate(each)]
            for i, each in enumerate(self.cross)
        ]
        hidden = padding_mask
        if hidden is None:
            hidden = torch.zeros(rows, length, dtype=torch.bool, device=source.device)
        mask = additive(~hidden[:, None, None, :], source)
        self._mask = cache.keep("cross mask", mask, 0, 3, fill=float("-inf"))
        self._look(rows)

    def _look(self, rows: int) -> None:
        """Look at the first rows of the buffers."""
        bucketed = self.bucketed(rows)
        self.cross, self.cross_mask = bucketed.cross, bucketed.cross_mask

    def bucketed(self, rows: int) -> BucketSession:
        """A session over so many rows, which goes on when this one is over."""
        cross = [[both.view(rows, self.sources) for both in each] for each in self._cross]
        return BucketSession(self.weights, self.cache, cross, self._mask.view(rows, self.sources))

    def select(self, rows: Tensor, rows_cpu: list[int]) -> None:
        self.cache.select(rows, rows_cpu)
        self._look(len(rows_cpu))


class StaticDecoder(DecoderWeights):
    """``DecoderWeights`` whose sessions are a ``StaticSession``."""

    def __init__(
        self,
        graphs: Graphs,
        decoder: Any,
        name: str,
        read_layers: Sequence[int] = (),
        free_unpacked: bool = False,
    ) -> None:
        super().__init__(decoder, name, read_layers, free_unpacked)
        self.graphs = graphs

    def _new_cache(self) -> KVCache:
        return StaticCache(len(self.layers), self.heads, self.width // self.heads, self.graphs)

    def _session(
        self, cache: KVCache, source: Tensor, padding_mask: Tensor | None
    ) -> DecoderSession:
        assert isinstance(cache, StaticCache)
        return StaticSession(self, cache, source, padding_mask)
