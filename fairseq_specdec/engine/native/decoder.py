"""A fairseq Transformer decoder on the native library, run over a block after a cache."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..eager.packed_heads import PackedHeads
from ..layout import Layout
from .pointers import pointer
from .stack import NativeStack
from .structures import RunCall


class NativeDecoder:
    """Weights, as ``engine.eager.DecoderWeights``; sessions share them.

    Args:
        decoder: fairseq ``TransformerDecoder`` or any module with its attributes, without a reason
            for ``refusal``.
        linear: makes a product of a weight and a bias.
        read_layers: layers, counted from 1, whose hidden states a session keeps, side by side.
    """

    def __init__(
        self,
        decoder: Any,
        stack: NativeStack,
        linear: Callable[[Tensor, Tensor | None], Callable[[Tensor], Tensor]],
        read_layers: Sequence[int] = (),
    ) -> None:
        self.stack = stack
        self.read_layers = sorted(read_layers)
        self.read = (ctypes.c_int32 * max(1, len(self.read_layers)))(*self.read_layers)
        narrow = decoder.project_out_dim
        self.project_out = None if narrow is None else linear(narrow.weight, narrow.bias)
        outputs = getattr(decoder, "block_heads", None)
        learned = outputs is not None and outputs.first_is_learned
        self.first_head = PackedHeads(outputs, 1, 1, linear) if learned else None
        # Sessions that are over; list operations are atomic, so threads may share it.
        self._spare: list[NativeBuffers] = []

    @property
    def plain(self) -> bool:
        """Whether the vocabulary's product follows the final norm at once."""
        return self.project_out is None and self.first_head is None

    def open(
        self, encoder_out: Tensor, padding_mask: Tensor | None, capacity: int
    ) -> NativeDecoderSession:
        """Begin a batch.

        Args:
            encoder_out: [S, B, C], as fairseq's encoders give it.
            padding_mask: bool [B, S], True at padding, or None.
            capacity: cache slots to prepare.
        """
        source = encoder_out.transpose(0, 1).float().contiguous()
        rows, length, size = source.shape
        try:
            buffers = self._spare.pop()
        except IndexError:
            buffers = NativeBuffers(self.stack)
        mask = None if padding_mask is None else padding_mask.contiguous()
        self.stack.library.call(
            "specdec_session_open", buffers.pointer, rows, length, size, pointer(source),
            pointer(mask, torch.bool), capacity,
        )  # fmt: skip
        return NativeDecoderSession(self, buffers, Committed(rows, capacity))

    def give_back(self, buffers: NativeBuffers) -> None:
        self._spare.append(buffers)

    def finish(self, x: Tensor) -> Tensor:
        """[B, W, C'], what ``logits`` reads, of the last layer's normed output [B, W, C]."""
        if self.project_out is not None:
            x = self.project_out(x)
        if self.first_head is not None:
            x = self.first_head(x).squeeze(-2)
        return x


class NativeBuffers:
    """The library's ``Session``: cache and working memory, for one batch at a time."""

    def __init__(self, stack: NativeStack) -> None:
        self.stack = stack  # outlives it
        self.pointer = ctypes.c_void_p()
        stack.library.call("specdec_session_new", stack.pointer, ctypes.byref(self.pointer))
        weakref.finalize(self, stack.library.free, "specdec_session_free", self.pointer)


class Committed:
    """How many slots of each row are committed; the library keeps the cache itself.

    Attributes:
        lengths: long [B].
        lengths_cpu: the same numbers as Python ints.
        capacity: slots that blocks may write to.
    """

    def __init__(self, rows: int, capacity: int) -> None:
        self.lengths = torch.zeros(rows, dtype=torch.long)
        self.lengths_cpu = [0] * rows
        self.capacity = capacity

    def reserve(self, slots: int) -> None:
        """The library grows its cache when a block needs it."""
        self.capacity = max(self.capacity, slots)


class NativeDecoderSession:
    """One batch of a decoder, as ``engine.eager.DecoderSession``. ``hidden_states``: [B, W, n C],
    of the layers to read at the block last run; None without. ``cache``: the committed lengths."""

    def __init__(self, weights: NativeDecoder, buffers: NativeBuffers, cache: Committed) -> None:
        self.weights = weights
        self.buffers = buffers
        self.cache = cache
        self.hidden_states: Tensor | None = None

    def run(
        self,
        x: Tensor,
        layout: Layout,
        mask: Tensor | None,
        layer_bias: Tensor | None = None,
        wanted: int | None = None,
    ) -> Tensor:
        """Run a block, arguments and result as for ``engine.eager.DecoderSession``."""
        weights, stack = self.weights, self.weights.stack
        x = x.float().contiguous()
        rows, width, size = x.shape
        slots = layout.slots.contiguous()
        if layer_bias is not None:
            layer_bias = layer_bias.float().expand_as(x).contiguous()
        if mask is not None:
            mask = mask.squeeze(1).expand(rows, width, layout.upto).contiguous()
        kept = width if wanted is None else wanted
        features = torch.empty(rows, kept, size)
        count = len(weights.read_layers)
        states = torch.empty(rows, width, count * size) if count else None
        places = None if layout.seen is None else layout.positions.contiguous()
        call = RunCall(
            rows, width, layout.upto, size, pointer(x), pointer(slots, torch.long),
            pointer(mask, torch.bool), pointer(places, torch.long), pointer(layer_bias),
            kept, count, weights.read, pointer(features), pointer(states),
        )  # fmt: skip
        stack.library.call("specdec_session_run", self.buffers.pointer, ctypes.byref(call))
        self.hidden_states = states
        return weights.finish(features)

    def logits(self, features: Tensor) -> Tensor:
        return self.weights.stack.logits(features)

    def commit(self, lengths: Tensor, lengths_cpu: list[int]) -> None:
        """Keep so many slots of each row (long [B], and as Python ints); roll back the rest."""
        self.cache.lengths = lengths
        self.cache.lengths_cpu = lengths_cpu

    def select(self, rows: Tensor, rows_cpu: list[int]) -> None:
        self.weights.stack.library.call(
            "specdec_session_select", self.buffers.pointer, len(rows_cpu), pointer(rows, torch.long)
        )
        self.cache.lengths = self.cache.lengths.index_select(0, rows)
        self.cache.lengths_cpu = [self.cache.lengths_cpu[row] for row in rows_cpu]

    def close(self) -> None:
        self.weights.give_back(self.buffers)
