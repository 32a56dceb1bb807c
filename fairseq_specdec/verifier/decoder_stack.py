"""A fairseq Transformer decoder, run over a block of positions behind a cache.

In incremental mode a stock ``TransformerDecoder`` looks at the last token only and applies no
causal mask, so it cannot score a block. Its weights can: here they are read once (queries, keys
and values fused into one product) and run over [cached prefix + block].
"""

from __future__ import annotations

import functools
from typing import Any, List, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .attention import attend
from .kv_cache import KVCache
from .linear import Linear
from .norm import Norm
from .packed_heads import PackedHeads
from .parts import check_stack
from .vocabulary import vocabulary_product


class _Layer:
    """The weights of one decoder layer, as products to call."""

    def __init__(self, layer: Any, release: bool) -> None:
        of = functools.partial(Linear.of, release=release)
        self.pre_norm = layer.normalize_before
        self.heads = layer.self_attn.num_heads
        attention = layer.self_attn
        self.qkv = of(attention.q_proj, attention.k_proj, attention.v_proj)
        self.out = of(attention.out_proj)
        attention = layer.encoder_attn
        self.cross_query = of(attention.q_proj)
        self.cross_key_value = of(attention.k_proj, attention.v_proj)
        self.cross_out = of(attention.out_proj)
        self.fc1 = of(layer.fc1)
        self.fc2 = of(layer.fc2)
        self.activation = layer.activation_fn
        self.self_norm = Norm(layer.self_attn_layer_norm)
        self.cross_norm = Norm(layer.encoder_attn_layer_norm)
        self.final_norm = Norm(layer.final_layer_norm)


def _by_heads(keys_values: Tensor, heads: int) -> Tensor:
    """[B, T, 2C] -> keys and values [2, B, H, T, C/H], in one piece."""
    return keys_values.unflatten(2, (2, heads, -1)).permute(2, 0, 3, 1, 4).contiguous()


class DecoderStack:
    """Runs the layers of one decoder over a block, keeping keys and values in a ``KVCache``.

    Args:
        decoder: fairseq ``TransformerDecoder`` or any module with its attributes.
        name: what to call the model in errors, e.g. ``--path verifier.pt``.
        read_layers: layers, counted from 1, whose output ``run`` leaves in ``self.read``, side by
            side as [B, W, n C]; the last layer's has passed the final norm.
        release: let the decoder go of the weights that lie packed here, as in ``Linear.of``.

    Raises:
        ValueError: the decoder has a part that is not run here, named by its flag.
    """

    def __init__(
        self, decoder: Any, name: str, read_layers: Sequence[int] = (), release: bool = False
    ) -> None:
        check_stack(decoder, name)
        self.layers = [_Layer(layer, release) for layer in decoder.layers]
        self.final_norm = decoder.layer_norm
        self.project_out = decoder.project_out_dim
        self.vocabulary = vocabulary_product(decoder, release)
        # A blockwise model's output is that of its head 1.
        outputs = getattr(decoder, "block_heads", None)
        learned = outputs is not None and outputs.first_is_learned
        self.first_head = PackedHeads(outputs, 1, 1) if learned else None
        self.width = self.layers[0].out.size
        heads = self.layers[0].heads
        self.cache = KVCache(len(self.layers), heads, self.width // heads)
        self.read_layers = set(read_layers)
        self.read: Optional[Tensor] = None
        self.cross: List[Tensor] = []  # per layer keys and values [2, B, H, S, D]
        self.cross_mask: Optional[Tensor] = None

    def start(self, encoder_out: Tensor, padding_mask: Optional[Tensor], capacity: int) -> None:
        """Begin a batch: cross-attention keys and values are computed once.

        Args:
            encoder_out: [S, B, C], as fairseq's encoders give it.
            padding_mask: bool [B, S], True at padding, or None.
            capacity: cache slots to prepare.
        """
        source = encoder_out.transpose(0, 1).contiguous()
        self.cross = [_by_heads(x.cross_key_value(source), x.heads) for x in self.layers]
        self.cross_mask = None
        if padding_mask is not None and bool(padding_mask.any()):
            self.cross_mask = ~padding_mask[:, None, None, :]
        self.cache.start(source.size(0), capacity, source)

    def run(
        self,
        x: Tensor,
        mask: Optional[Tensor],
        upto: int,
        again: Optional[Tensor] = None,
        last: Optional[int] = None,
    ) -> Tensor:
        """Run a block whose place in the cache was said by ``cache.aim``.

        Args:
            x: [B, W, C], embedded block.
            mask: bool [B, 1, W, upto] (True = may attend) or None when all may be seen.
            upto: cache slots looked at.
            again: [B, W, C], added before every layer but the first; or None.
            last: only the last so many positions are wanted; the last layer keeps the keys and
                values of the others and computes nothing else for them. Not with ``read_layers``.

        Returns:
            [B, W, C'] features ([B, last, C']), ready for ``self.vocabulary``.
        """
        size = self.width
        read: List[Tensor] = []
        for i, layer in enumerate(self.layers):
            if again is not None and i > 0:
                x = x + again
            residual = x
            if layer.pre_norm:
                x = layer.self_norm(x)
            fused = layer.qkv(x)
            keys, values = self.cache.write(i, fused[..., size:], upto)
            if last is not None and i + 1 == len(self.layers):
                fused, residual = fused[:, -last:], residual[:, -last:]
                mask = None if mask is None else mask[:, :, -last:]
            query = fused[..., :size].unflatten(2, (layer.heads, -1))
            x = residual + layer.out(attend(query, keys, values, mask))
            if not layer.pre_norm:
                x = layer.self_norm(x)

            residual = x
            if layer.pre_norm:
                x = layer.cross_norm(x)
            query = layer.cross_query(x).unflatten(2, (layer.heads, -1))
            x = residual + layer.cross_out(attend(query, *self.cross[i], self.cross_mask))
            if not layer.pre_norm:
                x = layer.cross_norm(x)

            residual = x
            if layer.pre_norm:
                x = layer.final_norm(x)
            x = residual + layer.fc2(layer.activation(layer.fc1(x)))
            if not layer.pre_norm:
                x = layer.final_norm(x)
            if i + 1 in self.read_layers and i + 1 < len(self.layers):
                read.append(x)
        if self.final_norm is not None:
            x = self.final_norm(x)
        if self.read_layers:
            if len(self.layers) in self.read_layers:
                read.append(x)
            self.read = torch.cat(read, -1)
        if self.project_out is not None:
            x = F.linear(x, self.project_out.weight, self.project_out.bias)
        if self.first_head is not None:
            x = self.first_head(x).squeeze(-2)
        return x

    def prune(self, keep: Tensor, host_keep: List[int]) -> None:
        """Keep only these rows."""
        self.cache.prune(keep, host_keep)
        self.cross = [both.index_select(1, keep) for both in self.cross]
        if self.cross_mask is not None:
            self.cross_mask = self.cross_mask.index_select(0, keep)
