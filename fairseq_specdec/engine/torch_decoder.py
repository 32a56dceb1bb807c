"""A fairseq Transformer with torch operators; its decoder runs over blocks of tokens after a cache.

In incremental mode a stock ``TransformerDecoder`` looks at the last token only and applies no
causal mask, so it cannot score a block. Its weights can: here they are read once (queries, keys
and values fused into one product) and run over [cached prefix + block].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .session import Embedding, Encoder, Session
from .state import Layout, additive
from .torch_layers import Layer, Linear, PackedHeads, attend, fold_biases, norm_of


class EncoderWeights(Encoder):
    """An encoder that torch runs. ``packs``: as for ``Linear``."""

    def __init__(self, encoder: Any, packs: bool = True) -> None:
        super().__init__(encoder)
        self.weights = [Layer(layer, packs) for layer in self.layers]
        fold_biases(self.weights)

    def run(self, x: Tensor, padding: Tensor | None) -> Tensor:
        mask = None if padding is None else ~padding[:, None, None, :]
        if mask is not None and mask.is_cuda:
            mask = additive(mask, x)
        for layer in self.weights:
            residual = x
            if layer.pre_norm:
                x = layer.self_norm(x)
            query, key, value = layer.qkv(x).unflatten(2, (3, layer.heads, -1)).unbind(2)
            attended = attend(query, key.transpose(1, 2), value.transpose(1, 2), mask)
            x = layer.out.onto(residual, attended)
            x = layer.feed_forward(x if layer.pre_norm else layer.self_norm(x))
        return x if self.layer_norm is None else self.layer_norm(x)


class _Layer(Layer):
    """The weights of one decoder layer, as products to call."""

    sublayers = [*Layer.sublayers[:1], ("cross_query", "cross_out", "cross_norm"),
                 *Layer.sublayers[1:]]  # fmt: skip

    def __init__(self, layer: Any, packs: bool) -> None:
        super().__init__(layer, packs)
        attention = layer.encoder_attn
        self.crosses = attention is not None
        if self.crosses:
            self.cross_query = self.of(attention.q_proj)
            self.cross_key_value = self.of(attention.k_proj, attention.v_proj)
            self.cross_out = self.of(attention.out_proj)
            self.cross_norm = norm_of(layer.encoder_attn_layer_norm)

    def read_source(self, source: Tensor) -> Tensor | None:
        """Keys and values [2, B, H, S, D] of the encoder's output [B, S, C]; None for a layer that
        does not attend to it."""
        if not self.crosses:
            return None
        both: Tensor = self.cross_key_value(source).unflatten(2, (2, self.heads, -1))
        return both.permute(2, 0, 3, 1, 4).contiguous()

    def attend(
        self, x: Tensor, cache: KVCache, index: int, mask: Tensor | None, wanted: int
    ) -> Tensor:
        """The first sublayer, with its residual and norm: [B, wanted, C] of [B, W, C]."""
        residual, size = x, self.out.size
        if self.pre_norm:
            x = self.self_norm(x)
        fused = self.qkv(x)
        keys, values = cache.write(index, fused[..., size:])
        if wanted < x.size(1):
            fused, residual = fused[:, -wanted:], residual[:, -wanted:]
            mask = None if mask is None else mask[:, :, -wanted:]
        query = fused[..., :size].unflatten(2, (self.heads, -1))
        x = self.out.onto(residual, attend(query, keys, values, mask))
        return x if self.pre_norm else self.self_norm(x)

    def attend_to_source(self, x: Tensor, cross: Tensor | None, mask: Tensor | None) -> Tensor:
        """The second sublayer, with its residual and norm (``cross``: [2, B, H, S, D])."""
        if cross is None:
            return x
        residual = x
        if self.pre_norm:
            x = self.cross_norm(x)
        query = self.cross_query(x).unflatten(2, (self.heads, -1))
        x = self.cross_out.onto(residual, attend(query, cross[0], cross[1], mask))
        return x if self.pre_norm else self.cross_norm(x)


class KVCache:
    """Keys and values of every layer of one decoder, preallocated.

    Slots that no layout shows are stale and are overwritten by later writes. They are finite
    numbers (never uninitialised memory), because a masked NaN would still make the attention NaN.

    The buffers outlive a batch: ``start`` reuses them when they are large enough. Each head's slots
    are contiguous, so that attention is one batch of products over all heads of all rows.

    Attributes:
        slots: for each layer keys and values [2, rows, H, capacity, D].

    Args:
        heads: H, attention heads of a layer.
        dim: D, size of a key of one head.
    """

    def __init__(self, layers: int, heads: int, dim: int) -> None:
        self.layers, self.heads, self.dim = layers, heads, dim
        self.slots: list[Tensor] = []
        self.used = 0  # slots that this batch has looked at
        self._flat: Tensor | None = None

    @property
    def capacity(self) -> int:
        return self.slots[0].size(3) if self.slots else 0

    def start(self, rows: int, capacity: int, like: Tensor) -> None:
        """Begin a batch of ``rows`` rows, of up to ``capacity`` slots at first, in the number
        format and on the device of ``like``."""
        self.used = 0
        if len(self.slots) == self.layers > 0:
            _, have, _, most, _ = self.slots[0].shape
            same = self.slots[0].dtype == like.dtype and self.slots[0].device == like.device
            if same and have >= rows and most >= capacity:
                return
        shape = (2, rows, self.heads, max(capacity, self.capacity), self.dim)
        self.slots = [like.new_zeros(shape) for _ in range(self.layers)]

    def reserve(self, slots: int) -> None:
        """Make room for ``slots`` slots in every row, which this batch looks at; the capacity is
        doubled when it must grow."""
        self.used = max(self.used, slots)
        old = self.capacity
        if slots > old and self.layers:
            self.slots = [F.pad(each, (0, 0, 0, max(slots, 2 * old) - old)) for each in self.slots]

    def place(self, layout: Layout) -> None:
        """Set the slots of the next writes, in all layers."""
        self.reserve(layout.upto)
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

    def keep(self, rows: Tensor, count: int) -> None:
        """Move these rows (``count`` ascending numbers) to the front."""
        for buffer in self.slots:
            buffer[:, :count, :, : self.used] = buffer[:, :, :, : self.used].index_select(1, rows)


class TorchDecoder:
    """The layers and projections of one decoder, laid out for decoding; nothing of it changes.

    Sessions share it: ``open`` begins one.

    Args:
        decoder: fairseq ``TransformerDecoder`` or any module with its attributes.
        read_layers: layers, counted from 1, whose hidden states a session keeps, side by side; the
            last layer's have passed the final norm.
        packs: as for ``Linear``.
        cache, session: make a batch's ``KVCache`` and ``TorchSession``.
    """

    def __init__(
        self,
        decoder: Any,
        read_layers: Sequence[int] = (),
        packs: bool = True,
        cache: Callable[[int, int, int], KVCache] = KVCache,
        session: type[TorchSession] | None = None,
    ) -> None:
        self.layers = [_Layer(layer, packs) for layer in decoder.layers]
        fold_biases(self.layers, read_layers)
        self.final_norm = decoder.layer_norm
        self.project_out = decoder.project_out_dim
        self.vocabulary = Linear.of(decoder.output_projection, packs=packs)
        # A blockwise model's output is that of its head 1.
        outputs = getattr(decoder, "block_heads", None)
        learned = outputs is not None and outputs.first_is_learned
        self.first_head = PackedHeads(outputs, 1, 1) if learned else None
        self.width = self.layers[0].out.size if self.layers else decoder.embed_dim
        self.heads = self.layers[0].heads if self.layers else 1
        self.read_layers = frozenset(read_layers)
        # Caches of sessions that are over; list operations are atomic, so threads may share it.
        self.spare: list[KVCache] = []
        self._cache, self._session = cache, session or TorchSession

    def open(
        self,
        encoder_out: dict[str, Any],
        capacity: int,
        embedding: Embedding | None = None,
        positions: Tensor | None = None,
    ) -> TorchSession:
        """Begin a batch.

        Args:
            encoder_out: as fairseq's encoders give it.
            capacity: cache slots to prepare.
            embedding, positions: as in ``Session``.
        """
        return self._session(self, encoder_out, capacity, embedding, positions)

    def take_cache(self) -> KVCache:
        """The cache of a session that is over, or a new one."""
        try:
            return self.spare.pop()
        except IndexError:
            return self._cache(len(self.layers), self.heads, self.width // self.heads)

    def run(
        self,
        cache: KVCache,
        cross: Sequence[Tensor | None],
        cross_mask: Tensor | None,
        x: Tensor,
        layout: Layout,
        layer_bias: Tensor | None = None,
        wanted: int | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Write a block to a cache and attend.

        Args:
            cross: of each layer, keys and values of the source [2, B, H, S, D]; or None.
            cross_mask: of the source, as ``attend`` takes it.
            x, layout, layer_bias, wanted: as in ``Session.run_embedded``.

        Returns:
            ([B, W, C'], what ``vocabulary`` reads; [B, W, C] of each of ``read_layers``).
        """
        mask = layout.mask(x)
        cache.place(layout)
        read: list[Tensor] = []
        final = len(self.layers)
        for i, layer in enumerate(self.layers, start=1):
            if layer_bias is not None and i > 1:
                x = x + layer_bias
            width = x.size(1) if wanted is None or i < final else wanted
            x = layer.attend(x, cache, i - 1, mask, width)
            x = layer.attend_to_source(x, cross[i - 1], cross_mask)
            x = layer.feed_forward(x)
            if i in self.read_layers and i < final:
                read.append(x)
        if self.final_norm is not None:
            x = self.final_norm(x)
        if final in self.read_layers:
            read.append(x)
        if self.project_out is not None:
            x = F.linear(x, self.project_out.weight, self.project_out.bias)
        if self.first_head is not None:
            x = self.first_head(x).squeeze(-2)
        return x, read


class TorchSession(Session[TorchDecoder]):
    """One batch of a ``TorchDecoder``; arguments as for its ``open``."""

    def __init__(
        self, weights: TorchDecoder, encoder_out: dict[str, Any], capacity: int, *embedding: Any
    ) -> None:
        super().__init__(weights, *embedding)
        source = encoder_out["encoder_out"][0].transpose(0, 1).contiguous()
        masks = encoder_out["encoder_padding_mask"]
        self.cache = weights.take_cache()
        self.cache.start(source.size(0), capacity, source)
        self._read(source, masks[0] if len(masks) else None)

    def _read(self, source: Tensor, padding: Tensor | None) -> None:
        """Compute keys and values of the source [B, S, C], once per batch (``padding``: bool [B, S]
        or None)."""
        self.cross = [layer.read_source(source) for layer in self.weights.layers]
        self.cross_mask: Tensor | None = None
        # Whether a GPU's mask hides anything is not asked: encoders give none where it does not.
        if padding is not None and (padding.is_cuda or bool(padding.any())):
            self.cross_mask = ~padding[:, None, None, :]
            if padding.is_cuda:
                self.cross_mask = additive(self.cross_mask, source)

    def run_embedded(
        self, x: Tensor, layout: Layout, layer_bias: Tensor | None = None, wanted: int | None = None
    ) -> Tensor:
        x, read = self.weights.run(
            self.cache, self.cross, self.cross_mask, x, layout, layer_bias, wanted
        )
        if read and self.reads:
            self.keep_states(layout, torch.cat(read, -1))
        return x

    def logits(self, features: Tensor) -> Tensor:
        logits: Tensor = self.weights.vocabulary(features)
        return logits

    def keep(self, rows: Tensor, count: int) -> None:
        super().keep(rows, count)
        self.cache.keep(rows, count)
        self.cross = [None if each is None else each.index_select(1, rows) for each in self.cross]
        if self.cross_mask is not None:
            self.cross_mask = self.cross_mask.index_select(0, rows)

    def close(self) -> None:
        self.weights.spare.append(self.cache)
