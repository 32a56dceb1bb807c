"""A fairseq Transformer's encoder, and its decoder over a block after a cache, natively."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..memory import packed_source
from ..session import Embedding, Encoder, Session
from ..state import Layout, Rows, floats, pointer
from ..torch_layers import PackedHeads
from . import structures
from .linear import NativeLinear
from .stack import NativeStack

LEAST_ROOM = 64
"""Tokens by which a list may grow, beside a sixteenth of the vocabulary."""


class NativeEncoder(Encoder):
    """An encoder of text or of speech: the library runs its layers, from their packed weights."""

    def __init__(self, encoder: Any, stack: NativeStack) -> None:
        super().__init__(encoder)
        self.stack = stack

    def run(self, x: Tensor, padding: Tensor | None) -> Tensor:
        x = x.float().contiguous()
        rows, length, width = x.shape
        self.stack.library.call(
            "specdec_encode", self.stack.pointer, rows, length, width, pointer(x),
            pointer(padding, torch.bool),
        )  # fmt: skip
        return x


class NativeDecoder:
    """Weights, as ``TorchDecoder``; sessions share them.

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
        self.spare: list[NativeBuffers] = []

    @property
    def plain(self) -> bool:
        """Whether the vocabulary's product follows the final norm at once."""
        return self.project_out is None and self.first_head is None

    def open(
        self,
        encoder_out: dict[str, Any],
        capacity: int,
        embedding: Embedding | None = None,
        positions: Tensor | None = None,
    ) -> NativeSession:
        """Begin a batch; arguments as in ``TorchDecoder.open``."""
        return NativeSession(self, encoder_out, capacity, embedding, positions)

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
        self.listed: Tensor | None = None  # as in ``NativeSession.list_tokens``
        self.previewed: NativeLinear | None = None
        self.observed: tuple[Tensor, Tensor] | None = None  # the library writes to them
        self.pointer = stack.library.make(self, "session", stack.pointer)


class NativeSession(Session[NativeDecoder]):
    """One batch of a ``NativeDecoder``, of ``rows`` rows; arguments as for its ``open``."""

    def __init__(
        self, weights: NativeDecoder, encoder_out: dict[str, Any], capacity: int, *embedding: Any
    ) -> None:
        super().__init__(weights, *embedding)
        source = encoder_out["encoder_out"][0].transpose(0, 1).float().contiguous()
        masks = encoder_out["encoder_padding_mask"]
        self.rows, length, size = source.shape
        try:
            self.buffers = weights.spare.pop()
        except IndexError:
            self.buffers = NativeBuffers(weights.stack)
        mask = masks[0].contiguous() if len(masks) else None
        weights.stack.library.call(
            "specdec_session_open", self.buffers.pointer, self.rows, length, size, pointer(source),
            pointer(mask, torch.bool), capacity,
        )  # fmt: skip

    def run_embedded(
        self, x: Tensor, layout: Layout, layer_bias: Tensor | None = None, wanted: int | None = None
    ) -> Tensor:
        assert layer_bias is None, "``refusal`` leaves such a decoder to torch"
        weights, stack = self.weights, self.weights.stack
        x = x.float().contiguous()
        rows, width, size = x.shape
        slots, mask = layout.slots.contiguous(), layout.mask()
        if mask is not None:
            mask = mask.squeeze(1).expand(rows, width, layout.upto).contiguous()
        kept = width if wanted is None else wanted
        features = torch.empty(rows, kept, size)
        count = len(weights.read_layers) if self.reads else 0
        states = torch.empty(rows, width, count * size) if count else None
        places = None if layout.in_order else layout.positions.contiguous()
        call = structures.RunCall(
            rows, width, layout.upto, size, pointer(x), pointer(slots, torch.long),
            pointer(mask, torch.bool), pointer(places, torch.long), kept,
            count, weights.read, pointer(features), pointer(states),
        )  # fmt: skip
        stack.library.call("specdec_session_run", self.buffers.pointer, ctypes.byref(call))
        if states is not None:
            self.keep_states(layout, states)
        return weights.finish(features)

    def states_for(self, columns: int) -> Tensor | None:
        """``states`` with room for so many columns, for the library to write; None where
        nothing is read."""
        size = len(self.weights.read_layers) * self.weights.stack.width if self.reads else 0
        return self.reserve_states(columns, self.rows, size, torch.empty(0)) if size else None

    def logits(self, features: Tensor) -> Tensor:
        return self.weights.stack.logits(features)

    def list_tokens(self, tokens: Tensor, more: Tensor | None) -> None:
        """Let greedy search choose among these tokens (long [n]) before the whole vocabulary
        decides. The buffers keep the list for later batches, with ``more`` and all that are
        emitted, until it has grown by a sixteenth of the vocabulary."""
        buffers, stack = self.buffers, self.weights.stack
        if buffers.listed is not tokens:
            buffers.listed = tokens
            stack.library.call(
                "specdec_session_list", buffers.pointer, len(tokens), pointer(tokens, torch.long),
                stack.words // 16 + LEAST_ROOM,
            )  # fmt: skip
        if more is not None:
            stack.library.call(
                "specdec_session_list_add", buffers.pointer, len(more), pointer(more, torch.long)
            )

    def preview(self, projection: NativeLinear, narrow: NativeLinear, likeliest: int) -> None:
        """The same for a row that is decoded alone, among the ``likeliest`` tokens by products with
        few dimensions (``drafting.vocabulary.Preview``)."""
        buffers = self.buffers
        if buffers.previewed is not narrow:
            self.weights.stack.library.call(
                "specdec_session_preview", buffers.pointer, projection.pointer, narrow.pointer,
                likeliest,
            )  # fmt: skip
            buffers.previewed = narrow

    def observe(self, features: Tensor, noted: Tensor) -> None:
        """Note the features of decided tokens (float32 [N, C]) until they are N, and how many there
        were (long [1])."""
        if self.buffers.observed is None or self.buffers.observed[0] is not features:
            self.weights.stack.library.call(
                "specdec_session_observe", self.buffers.pointer, len(features), pointer(features),
                pointer(noted, torch.long),
            )  # fmt: skip
            self.buffers.observed = features, noted

    def keep(self, rows: Tensor, count: int) -> None:
        super().keep(rows, count)
        self.rows = count
        self.weights.stack.library.call(
            "specdec_session_select", self.buffers.pointer, count, pointer(rows, torch.long)
        )

    def close(self) -> None:
        self.weights.spare.append(self.buffers)


class EmbeddingTables:
    """The table of token embeddings; that of the positions grows with the longest sentence.
    ``tokens``: float32 [V, C], or packed. ``scale``: of the tokens' embeddings."""

    def __init__(self, tokens: Tensor | NativeLinear, scale: float) -> None:
        self.tokens = tokens
        self.scale = scale

    @classmethod
    def find(cls, decoder: Any) -> EmbeddingTables | None:
        """For a decoder that only adds tokens and positions; None for others."""
        more = ("quant_noise", "project_in_dim", "layernorm_embedding", "source_copy")
        table = decoder.embed_tokens
        if any(getattr(decoder, name, None) is not None for name in more):
            return None
        if not isinstance(table, nn.Embedding) or table.max_norm is not None:
            return None
        held = packed_source(table)
        scale = float(decoder.embed_scale)
        return cls(floats(table.weight) if held is None else held.product, scale)

    def of(self, positions: Tensor | None) -> structures.Embedding:
        """For the library. ``positions``: float32 [P, C], which the caller keeps as long as the
        library reads it; or None."""
        tokens = self.tokens
        if isinstance(tokens, NativeLinear):
            table, packed, shape = None, tokens.pointer, (tokens.size, tokens.width)
        else:
            table, packed, shape = pointer(tokens), None, (tokens.size(0), tokens.size(1))
        return structures.Embedding(
            table, packed, pointer(positions), shape[0],
            0 if positions is None else positions.size(0), shape[1], self.scale,
        )  # fmt: skip


def hypotheses_of(rows: Rows) -> structures.Hypotheses:
    """The outputs of a batch, which the library reads and writes."""
    return structures.Hypotheses(
        rows.tokens.size(1), pointer(rows.tokens, torch.long), pointer(rows.scores),
        pointer(rows.lengths, torch.long),
    )  # fmt: skip
