"""A fairseq Transformer decoder, run over a block of positions after a cache.

In incremental mode a stock ``TransformerDecoder`` looks at the last token only and applies no
causal mask, so it cannot score a block. Its weights can: here they are read once (queries, keys
and values fused into one product) and run over [cached prefix + block].
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..layout import Layout
from .attention import additive, attend
from .kv_cache import KVCache
from .linear import Linear
from .norm import Norm
from .packed_heads import PackedHeads
from .parts import check_stack
from .vocabulary import vocabulary_product


class _Layer:
    """The weights of one decoder layer, as products to call."""

    def __init__(self, layer: Any, free_unpacked: bool) -> None:
        of = functools.partial(Linear.of, free_unpacked=free_unpacked)
        self.pre_norm = layer.normalize_before
        self.heads = layer.self_attn.num_heads
        attention = layer.self_attn
        self.qkv = of(attention.q_proj, attention.k_proj, attention.v_proj)
        self.out = of(attention.out_proj)
        self.joined = layer.cross_self_attention
        attention = layer.encoder_attn
        self.crosses = attention is not None
        if self.crosses:
            self.cross_query = of(attention.q_proj)
            self.cross_key_value = of(attention.k_proj, attention.v_proj)
            self.cross_out = of(attention.out_proj)
            self.cross_norm = Norm(layer.encoder_attn_layer_norm)
        self.fc1 = of(layer.fc1)
        self.fc2 = of(layer.fc2)
        self.activation = layer.activation_fn
        # NormFormer's parts (Shleifer et al. 2021).
        self.attended_norm = None if layer.attn_ln is None else Norm(layer.attn_ln)
        self.inner_norm = None if layer.ffn_layernorm is None else Norm(layer.ffn_layernorm)
        heads = None if layer.c_attn is None else layer.c_attn.detach()
        self.head_scale = None if heads is None else heads.repeat_interleave(layer.head_dim)
        self.residual_scale = None if layer.w_resid is None else layer.w_resid.detach()
        self.self_norm = Norm(layer.self_attn_layer_norm)
        self.final_norm = Norm(layer.final_layer_norm)

    def read_source(self, source: Tensor) -> list[Tensor]:
        """Keys and values [2, B, H, S, D] of the encoder's output [B, S, C]: those before the
        self-attention's own (``--cross-self-attention``), then those of the cross-attention
        (without ``--no-cross-attention``)."""
        keys_values = []
        if self.joined:
            keys_values.append(_by_heads(self.qkv(source)[..., -2 * self.out.size :], self.heads))
        if self.crosses:
            keys_values.append(_by_heads(self.cross_key_value(source), self.heads))
        return keys_values

    def finish_attention(self, x: Tensor) -> Tensor:
        """What the first sublayer adds to its input, of the heads' results [B, W, C]."""
        x = self.out(x)
        if self.head_scale is not None:
            x = x * self.head_scale
        return x if self.attended_norm is None else self.attended_norm(x)

    def feed_forward(self, x: Tensor) -> Tensor:
        """The third sublayer, with its residual and norm."""
        residual = x
        if self.pre_norm:
            x = self.final_norm(x)
        x = self.fc1.activated(x, self.activation)
        if self.inner_norm is not None:
            x = self.inner_norm(x)
        if self.residual_scale is not None:
            residual = residual * self.residual_scale
        x = residual + self.fc2(x)
        return x if self.pre_norm else self.final_norm(x)

    def attend_to_source(self, x: Tensor, cross: Tensor, mask: Tensor | None) -> Tensor:
        """The second sublayer, with its residual and norm (``cross``: [2, B, H, S, D])."""
        residual = x
        if self.pre_norm:
            x = self.cross_norm(x)
        query = self.cross_query(x).unflatten(2, (self.heads, -1))
        x = residual + self.cross_out(attend(query, cross[0], cross[1], mask))
        return x if self.pre_norm else self.cross_norm(x)


def layer_bytes(decoder: Any) -> int:
    """Bytes of the weights of a decoder's layers."""
    parameters = (each for layer in decoder.layers for each in layer.parameters())
    return sum(each.numel() * each.element_size() for each in parameters)


class DecoderWeights:
    """The layers and projections of one decoder, laid out for decoding; nothing of it changes.

    Sessions share it: ``open`` begins one.

    Args:
        decoder: fairseq ``TransformerDecoder`` or any module with its attributes.
        name: what to call the model in errors, e.g. ``--path verifier.pt``.
        read_layers: layers, counted from 1, whose hidden states a session keeps, side by side; the
            last layer's have passed the final norm.
        free_unpacked: free the decoder's weights that were packed, as ``Linear.of``.
    """

    def __init__(
        self, decoder: Any, name: str, read_layers: Sequence[int] = (), free_unpacked: bool = False
    ) -> None:
        check_stack(decoder, name)
        self.layers = [_Layer(layer, free_unpacked) for layer in decoder.layers]
        self.final_norm = decoder.layer_norm
        self.project_out = decoder.project_out_dim
        self.vocabulary = vocabulary_product(decoder, free_unpacked)
        # A blockwise model's output is that of its head 1.
        outputs = getattr(decoder, "block_heads", None)
        learned = outputs is not None and outputs.first_is_learned
        self.first_head = PackedHeads(outputs, 1, 1) if learned else None
        self.width = self.layers[0].out.size if self.layers else decoder.embed_dim
        self.heads = self.layers[0].heads if self.layers else 1
        self.read_layers = frozenset(read_layers)
        # Caches of sessions that are over; list operations are atomic, so threads may share it.
        self._caches: list[KVCache] = []

    def open(
        self, encoder_out: Tensor, padding_mask: Tensor | None, capacity: int
    ) -> DecoderSession:
        """Begin a batch.

        Args:
            encoder_out: [S, B, C], as fairseq's encoders give it.
            padding_mask: bool [B, S], True at padding, or None.
            capacity: cache slots to prepare.
        """
        source = encoder_out.transpose(0, 1).contiguous()
        try:
            cache = self._caches.pop()
        except IndexError:
            cache = self._new_cache()
        cache.start(source.size(0), capacity, source)
        return self._session(cache, source, padding_mask)

    def _new_cache(self) -> KVCache:
        return KVCache(len(self.layers), self.heads, self.width // self.heads)

    def _session(
        self, cache: KVCache, source: Tensor, padding_mask: Tensor | None
    ) -> DecoderSession:
        return DecoderSession(self, cache, source, padding_mask)

    def give_back(self, cache: KVCache) -> None:
        """Keep the buffers of a session that is over for a later one."""
        self._caches.append(cache)

    def finish(self, x: Tensor) -> Tensor:
        """[B, W, C'], what ``vocabulary`` reads, of the last layer's normed output [B, W, C]."""
        if self.project_out is not None:
            x = F.linear(x, self.project_out.weight, self.project_out.bias)
        if self.first_head is not None:
            x = self.first_head(x).squeeze(-2)
        return x


class DecoderSession:
    """One batch of a decoder: its cache, and keys and values of the source.

    Attributes:
        hidden_states: [B, W, n C], of the layers to read at the block last run; None without.

    Args:
        cache: emptied for B rows.
        source: [B, S, C], the encoder's output.
        padding: bool [B, S], True at padding, or None.
    """

    def __init__(
        self, weights: DecoderWeights, cache: KVCache, source: Tensor, padding: Tensor | None
    ) -> None:
        self.weights = weights
        self.cache = cache
        self.hidden_states: Tensor | None = None
        # Keys and values of the source are computed once a batch.
        self.cross = [layer.read_source(source) for layer in weights.layers]
        self.cross_mask: Tensor | None = None
        # Whether a GPU's mask hides anything is not asked: encoders give none where it does not.
        if padding is not None and (padding.is_cuda or bool(padding.any())):
            self.cross_mask = ~padding[:, None, None, :]
            if padding.is_cuda:
                self.cross_mask = additive(self.cross_mask, source)

    def run(
        self,
        x: Tensor,
        layout: Layout,
        mask: Tensor | None,
        layer_bias: Tensor | None = None,
        wanted: int | None = None,
    ) -> Tensor:
        """Run a block: write its keys and values to the cache, and attend.

        Args:
            x: [B, W, C], embedded block.
            layout: its slots.
            mask: bool [B, 1, W, upto], True where attention is allowed; None where all is seen.
            layer_bias: [B, W, C], added to the input of every layer but the first; or None.
            wanted: only the last so many positions are wanted; the last layer keeps the keys and
                values of the others and computes nothing else for them. Not with layers to read.

        Returns:
            [B, W, C'] features ([B, wanted, C']), ready for ``logits``.
        """
        weights = self.weights
        joined = self._after_source(mask, x, layout.upto)
        if x.is_cuda:
            mask, joined = (None if m is None else additive(m, x) for m in (mask, joined))
        self.cache.reserve(layout.upto)
        self.cache.place(layout)
        read: list[Tensor] = []
        final = len(weights.layers)
        for i, layer in enumerate(weights.layers, start=1):
            if layer_bias is not None and i > 1:
                x = x + layer_bias
            seen = joined if layer.joined else mask
            if wanted is not None and i == final:
                seen = None if seen is None else seen[:, :, -wanted:]
                x = self._attend(i - 1, layer, x, seen, wanted)
            else:
                x = self._attend(i - 1, layer, x, seen, x.size(1))
            if layer.crosses:
                x = layer.attend_to_source(x, self.cross[i - 1][-1], self.cross_mask)
            x = layer.feed_forward(x)
            if i in weights.read_layers and i < final:
                read.append(x)
        if weights.final_norm is not None:
            x = weights.final_norm(x)
        if final in weights.read_layers:
            read.append(x)
        if read:
            self.hidden_states = torch.cat(read, -1)
        return weights.finish(x)

    def _after_source(self, mask: Tensor | None, x: Tensor, upto: int) -> Tensor | None:
        """The mask of keys that stand after those of the source: bool [B, 1, W, S + upto], or None
        where all is seen or no layer has such keys. Arguments as in ``run``."""
        source = self.cross_mask
        if (mask is None and source is None) or not any(y.joined for y in self.weights.layers):
            return None
        if source is not None and source.dtype != torch.bool:
            source = source == 0
        shape = (x.size(0), 1, x.size(1))
        parts = ((source, self.cross[0][0].size(3)), (mask, upto))
        every = x.new_ones(1, dtype=torch.bool)
        return torch.cat([(every if m is None else m).expand(*shape, n) for m, n in parts], 3)

    def _attend(
        self, index: int, layer: _Layer, x: Tensor, mask: Tensor | None, wanted: int
    ) -> Tensor:
        """The first sublayer, with its residual and norm: [B, wanted, C] of [B, W, C]."""
        size = self.weights.width
        residual = x
        if layer.pre_norm:
            x = layer.self_norm(x)
        fused = layer.qkv(x)
        keys, values = self.cache.write(index, fused[..., size:])
        if layer.joined:
            before = self.cross[index][0]
            keys, values = torch.cat([before[0], keys], 2), torch.cat([before[1], values], 2)
        if wanted < x.size(1):
            fused, residual = fused[:, -wanted:], residual[:, -wanted:]
        query = fused[..., :size].unflatten(2, (layer.heads, -1))
        x = residual + layer.finish_attention(attend(query, keys, values, mask))
        return x if layer.pre_norm else layer.self_norm(x)

    def logits(self, features: Tensor) -> Tensor:
        """[.., V] of features [.., C']."""
        logits: Tensor = self.weights.vocabulary(features)
        return logits

    def commit(self, lengths: Tensor, lengths_cpu: list[int]) -> None:
        """Keep so many slots of each row (long [B], and as Python ints); roll back the rest."""
        self.cache.commit(lengths, lengths_cpu)

    def select(self, rows: Tensor, rows_cpu: list[int]) -> None:
        self.cache.select(rows, rows_cpu)
        self.cross = [[both.index_select(1, rows) for both in each] for each in self.cross]
        if self.cross_mask is not None:
            self.cross_mask = self.cross_mask.index_select(0, rows)

    def close(self) -> None:
        """The batch is over."""
        self.weights.give_back(self.cache)


def _by_heads(keys_values: Tensor, heads: int) -> Tensor:
    """[B, T, 2C] -> keys and values [2, B, H, T, C/H], in one piece."""
    apart: Tensor = keys_values.unflatten(2, (2, heads, -1)).permute(2, 0, 3, 1, 4)
    return apart.contiguous()
