"""Decoding over buffers that keep their addresses from batch to batch, for CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .eager.attention import additive
from .graphs import (
    Fixed,
    Graphs,
    Outputs,
    Shape,
    StaticCalls,
    bucket,
    more_rows,
    row_bucket,
    scattered_columns,
)
from .session import Embedding, Session
from .state import Layout, causal_horizon
from .torch_decoder import KVCache, TorchDecoder, TorchSession

Finish = Callable[[Any, Tensor], Tensor]
"""[.., V] of a session and its features [.., C']."""


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
        if self.slots is not before:
            self.calls.clear()

    def reserve(self, slots: int) -> None:
        before = self.slots
        super().reserve(bucket(slots))
        if self.slots is not before:
            self.calls.clear()

    def buffer(
        self, name: str, value: Tensor, row_dim: int, column_dim: int, fill: Any = None
    ) -> RowBuffer:
        """A buffer with something of the source, which ``keep`` holds in the order of the rows.

        Args:
            name: names it for later batches.
            value, fill: as for ``RowBuffer.put``.
            row_dim, column_dim: as in ``RowBuffer``.
        """
        buffer = self._buffers.setdefault(name, RowBuffer(row_dim, column_dim))
        if buffer.put(value, fill):
            self.calls.clear()
        return buffer

    def keep(self, rows: Tensor, count: int) -> None:
        super().keep(rows, count)
        for buffer in self._buffers.values():
            buffer.select(rows, count)


class BucketSession(TorchSession):
    """A session over the first rows of a cache, whatever batch they are of: what a graph is
    recorded with. ``read``: hidden states of its last block, [R, W, n C]; None without layers to
    read."""

    def __init__(self, of: StaticSession, rows: int) -> None:
        Session.__init__(self, of.weights, of.embedding, of.positions)
        self.cache = of.cache
        self.cross = [None if x is None else x.view(rows, of.sources) for x in of.buffers]
        self.cross_mask = of.mask.view(rows, of.sources)
        self.read: Tensor | None = None

    def keep_states(self, layout: Layout, read: Tensor) -> None:
        self.read = read


class StaticSession(TorchSession):
    """A session whose buffers keep their addresses from batch to batch.

    Attributes:
        sources: S, source positions that are computed, the bucket of those that there are.
        buffers: for each layer keys and values of the source; None for a layer that reads none.
        mask: of the source, as ``additive`` gives it.
    """

    cache: StaticCache

    def __init__(
        self,
        weights: TorchDecoder,
        cache: StaticCache,
        source: Tensor,
        padding: Tensor | None,
        embedding: Embedding | None = None,
        positions: Tensor | None = None,
    ) -> None:
        super().__init__(weights, cache, source, padding, embedding, positions)
        rows, length = source.size(0), source.size(1)
        self.sources = bucket(length)
        self.buffers = [
            None if each is None else cache.buffer(f"cross {i}", each, 1, 3)
            for i, each in enumerate(self.cross)
        ]
        hidden = padding
        if hidden is None:
            hidden = torch.zeros(rows, length, dtype=torch.bool, device=source.device)
        mask = additive(~hidden[:, None, None, :], source)
        self.mask = cache.buffer("cross mask", mask, 0, 3, fill=float("-inf"))
        self._look(rows)

    def _look(self, rows: int) -> None:
        """Look at the first rows of the buffers."""
        bucketed = BucketSession(self, rows)
        self.cross, self.cross_mask = bucketed.cross, bucketed.cross_mask

    def keep(self, rows: Tensor, count: int) -> None:
        Session.keep(self, rows, count)
        self.cache.keep(rows, count)
        self._look(count)

    def padded(self, width: int, upto: int) -> tuple[int, int]:
        return scattered_columns(width), bucket(upto)

    def replay(self, tokens: Tensor, layout: Layout, finish: Finish) -> Tensor | None:
        """As ``Session.replay``. The answer holds until the next call.

        Args:
            tokens: long [B, W].
            layout: of a chain, or of scattered tokens ``padded``.
            finish: always the same one for this model.
        """
        calls, (rows, width) = self.cache.calls, tokens.shape
        padded_rows = row_bucket(rows)
        if layout.seen is None:
            kind, columns = "block", calls.graphs.columns(width)
            upto = bucket(layout.upto - width + columns)
            places: list[tuple[Tensor, tuple[int, ...]]] = [(layout.slots[:, 0], (padded_rows,))]
        else:
            kind, columns, upto = "scattered", width, layout.upto
            if self.padded(width, upto) != (width, upto):
                return None
            # Rows that no batch had yet see all: a row that sees nothing makes NaN.
            places = [(each, (padded_rows, columns)) for each in (layout.positions, layout.slots)]
            places.append((~layout.seen, (padded_rows, columns, upto)))
        self.cache.reserve(upto)
        self.cache.used = max(self.cache.used, layout.upto)
        known = None if self.positions is None else self.positions.size(0)

        def make() -> Fixed:
            # Of this batch nothing but the length of the position table.
            session = BucketSession(self, padded_rows)

            def whole_pass(tokens: Tensor, *places: Tensor) -> Outputs:
                return _whole_pass(session, upto, finish, tokens, *places)

            shapes: list[Shape] = [((padded_rows, columns), torch.long)]
            return Fixed(whole_pass, shapes + [(size, place.dtype) for place, size in places])

        key, *wider = (
            (kind, more, columns, upto, self.sources, known)
            for more in (padded_rows, *more_rows(padded_rows))
        )
        outputs = calls.run(key, make, [tokens, *(place for place, _ in places)], wider)
        if outputs is None:
            return None
        if len(outputs) > 1:
            self.keep_states(layout, outputs[1][:rows, :width])
        return outputs[0][:rows, :width]


def _whole_pass(
    session: BucketSession, upto: int, finish: Finish, tokens: Tensor, *places: Tensor
) -> Outputs:
    """What is recorded: a pass over a block.

    Args:
        session: over the first rows of the cache.
        upto: slots to look at, T.
        finish: makes scores of features.
        tokens: long [R, W].
        places: of a chain long [R], the slot of each row's first token; of scattered tokens their
            positions and slots, each long [R, W], and bool [R, W, T], False at what each sees.

    Returns:
        ``finish``'s [R, W, V], and the hidden states [R, W, n C] where some are read.
    """
    if len(places) == 1:
        slots = causal_horizon(places[0], tokens.size(1))
        layout = Layout(slots, slots, upto)
    else:
        positions, slots, hidden = places
        layout = Layout(positions, slots, upto, seen=~hidden)
    scores = finish(session, session.run(tokens, layout))
    return (scores,) if session.read is None else (scores, session.read)


class StaticDecoder(TorchDecoder):
    """``TorchDecoder`` whose sessions are a ``StaticSession``."""

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

    def _session(self, *parts: Any) -> TorchSession:
        return StaticSession(self, *parts)
