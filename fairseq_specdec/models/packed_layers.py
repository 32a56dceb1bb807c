"""Stock decoder layers over the states that a loss can depend on, and no others.

A stock layer takes one tensor [T + C k, B, C'] of states and one mask of its square. Of that a loss
needs less (B rows, T prefix width, C cuts, k the block size, D the width of a state):

- no block sees the prefix after its row's last cut;
- the last layer needs queries for the masks that are asked for, and none for the prefix;
- blocks do not see one another, so that most of the square mask is -inf.

Here the states are packed, [P + B C k, D]: the prefix states that some block sees, then all masks.
Linear layers, norms and dropout run over packed states. For attention they are spread over rows.
The stock layers are the reference: they run where a layer is another than fairseq's own
(:func:`can_pack`), and a test compares losses and gradients.
"""

from collections.abc import Iterator
from typing import Any

import torch
from fairseq.modules import MultiheadAttention
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor

from ..training.block_noising import block_attention

OPTIONAL_PARTS = ("attn_ln", "c_attn", "ffn_layernorm", "w_resid")


def _plain_attention(attention: Any) -> bool:
    return (
        type(attention) is MultiheadAttention
        and attention.bias_k is None
        and not attention.add_zero_attn
        and not getattr(attention, "use_xformers", False)
    )


def can_pack(layer: Any) -> bool:
    """Whether :func:`run_packed` computes what this layer's own ``forward`` does.

    Not so for layers with activation checkpointing, of FSDP, of another class, with hooks, or with
    parts that fairseq's decoder layer has only on demand.
    """
    return (
        type(layer) is TransformerDecoderLayerBase
        and "forward" not in vars(layer)  # checkpoint_wrapper replaces it
        and not layer._forward_hooks
        and not layer._forward_pre_hooks
        and _plain_attention(layer.self_attn)
        and _plain_attention(layer.encoder_attn)
        and not layer.cross_self_attention
        and all(getattr(layer, part, None) is None for part in OPTIONAL_PARTS)
    )


class BlockPlan:
    """Which states are computed and which attend to which: the same for every layer of a pass.

    Args:
        cuts: long [B, C].
        width: T.
        block_size: k.
        bidirectional: the prefix sees the whole prefix and the block (C = 1).

    Attributes:
        live: long [P], places in [B T] of the prefix states that a block sees.
        prefix_hidden: bool [B or 1, 1, T, T], keys that prefix queries do not see; with
            ``bidirectional`` [B, 1, T, T + k].
        block_hidden: bool [B, 1, C k, T], keys of the prefix that masks do not see.
    """

    def __init__(self, cuts: Tensor, width: int, block_size: int, bidirectional: bool):
        self.rows, self.cuts = cuts.shape
        self.width, self.block_size, self.bidirectional = width, block_size, bidirectional
        self.masks = self.cuts * block_size
        steps = torch.arange(width, device=cuts.device)
        seen = steps <= cuts[:, :, None]
        self.live = seen.any(1).flatten().nonzero().squeeze(1)
        self.block_hidden = ~seen.repeat_interleave(block_size, 1)[:, None]
        if bidirectional:
            allowed = block_attention(cuts, width, block_size, True)[:, :width]
            self.prefix_hidden = ~allowed[:, None]
        else:
            self.prefix_hidden = (steps[:, None] < steps)[None, None]

    def spread(self, x: Tensor) -> Tensor:
        """[P, D] to [B T, D]: zeros for prefix states that are not computed."""
        return spread(x, self.live, self.rows * self.width)


def spread(x: Tensor, places: Tensor, total: int) -> Tensor:
    """[n, D] to [total, D]: row i to ``places[i]``, zeros elsewhere."""
    return x.new_zeros(total, x.size(1)).index_copy(0, places, x)


def _heads(x: Tensor, rows: int, heads: int) -> Tensor:
    """[B n, D] to [B, heads, n, D / heads]."""
    return x.reshape(rows, x.size(0) // rows, heads, x.size(-1) // heads).transpose(1, 2)


def _no_heads(x: Tensor) -> Tensor:
    """[B, heads, n, d] to [B n, heads d]."""
    return x.transpose(1, 2).flatten(2).flatten(0, 1)


def _weights(scores: Tensor, attention: Any) -> Tensor:
    weights: Tensor = attention.dropout_module(torch.softmax(scores.float(), -1).type_as(scores))
    return weights


def _attend(queries: Tensor, keys: Tensor, values: Tensor, hidden: Any, attention: Any) -> Tensor:
    """Attention of [B, h, n, d] to [B, h, m, d]; ``hidden`` bool as [B, h, n, m] or None."""
    scores = torch.matmul(queries, keys.transpose(2, 3))
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.matmul(_weights(scores, attention), values)


class _SelfAttention:
    """Self-attention of one layer over packed states.

    Args:
        attention: fairseq's module.
        x: packed states [P + B C k, D], normalised where the layer does so.
        plan: of the pass.
    """

    def __init__(self, attention: Any, x: Tensor, plan: BlockPlan):
        self.attention, self.plan, self.x = attention, plan, x
        self.keys, self.own_keys = self._parts(attention.k_proj(x))
        self.values, self.own_values = self._parts(attention.v_proj(x))

    def _parts(self, x: Tensor) -> list[Tensor]:
        """Packed states as heads of the prefix, [B, h, T, d], and of the masks, [B, h, C k, d]."""
        plan, heads = self.plan, self.attention.num_heads
        first = len(plan.live)
        prefix = _heads(plan.spread(x[:first]), plan.rows, heads)
        return [prefix, _heads(x[first:], plan.rows, heads)]

    def of_all(self) -> Tensor:
        """Packed, [P + B C k, D]."""
        prefix, blocks = self._parts(self._queries(self.x))
        keys, values = self.keys, self.values
        if self.plan.bidirectional:
            keys = torch.cat([keys, self.own_keys], 2)
            values = torch.cat([values, self.own_values], 2)
        prefix = _attend(prefix, keys, values, self.plan.prefix_hidden, self.attention)
        prefix = _no_heads(prefix)[self.plan.live]
        return self._out(torch.cat([prefix, _no_heads(self._of_blocks(blocks))]))

    def of_masks(self, picked: Tensor) -> Tensor:
        """[n, D] for the masks at the places ``picked`` (long [n]) in [B C k]."""
        plan = self.plan
        queries = self._queries(self.x[len(plan.live) :][picked])
        queries = spread(queries, picked, plan.rows * plan.masks)
        queries = _heads(queries, plan.rows, self.attention.num_heads)
        return self._out(_no_heads(self._of_blocks(queries))[picked])

    def _queries(self, x: Tensor) -> Tensor:
        queries: Tensor = self.attention.q_proj(x) * self.attention.scaling
        return queries

    def _out(self, x: Tensor) -> Tensor:
        projected: Tensor = self.attention.out_proj(x)
        return projected

    def _of_blocks(self, queries: Tensor) -> Tensor:
        """Masks attend to the prefix up to their cut and to the masks of their own block."""
        plan = self.plan
        before = torch.matmul(queries, self.keys.transpose(2, 3))
        before = before.masked_fill(plan.block_hidden, float("-inf"))
        own_keys = self._by_block(self.own_keys)
        beside = torch.matmul(self._by_block(queries), own_keys.transpose(3, 4))
        weights = _weights(torch.cat([before, beside.flatten(2, 3)], 3), self.attention)
        of_own = torch.matmul(
            self._by_block(weights[..., plan.width :]), self._by_block(self.own_values)
        )
        return torch.matmul(weights[..., : plan.width], self.values) + of_own.flatten(2, 3)

    def _by_block(self, x: Tensor) -> Tensor:
        """[B, h, C k, n] to [B, h, C, k, n]."""
        return x.unflatten(2, (self.plan.cuts, self.plan.block_size))


class _Source:
    """The encoder's output as every layer's cross-attention takes it: [B S, D'] and its padding."""

    def __init__(self, encoder_out: dict[str, list[Tensor]]):
        states = encoder_out["encoder_out"][0].transpose(0, 1)
        self.rows = states.size(0)
        self.states = states.flatten(0, 1)
        padding = encoder_out["encoder_padding_mask"]
        self.hidden = padding[0][:, None, None, :].bool() if padding else None

    def attend(self, attention: Any, queries: Tensor) -> Tensor:
        """[B n, D] for queries [B n, D] in rows."""
        keys = _heads(attention.k_proj(self.states), self.rows, attention.num_heads)
        values = _heads(attention.v_proj(self.states), self.rows, attention.num_heads)
        queries = _heads(queries * attention.scaling, self.rows, attention.num_heads)
        return _no_heads(_attend(queries, keys, values, self.hidden, attention))


def _residual(layer: Any, norm: Any, residual: Tensor, x: Tensor) -> Tensor:
    x = residual + layer.dropout_module(x)
    return x if layer.normalize_before else norm(x)


def _own(layer: Any, x: Tensor, plan: BlockPlan, picked: Tensor | None) -> Tensor:
    norm = layer.self_attn_layer_norm
    attention = _SelfAttention(layer.self_attn, norm(x) if layer.normalize_before else x, plan)
    if picked is None:
        return _residual(layer, norm, x, attention.of_all())
    return _residual(layer, norm, x[len(plan.live) :][picked], attention.of_masks(picked))


def _cross(
    layer: Any, x: Tensor, plan: BlockPlan, source: _Source, picked: Tensor | None
) -> Tensor:
    norm, attention = layer.encoder_attn_layer_norm, layer.encoder_attn
    queries = attention.q_proj(norm(x) if layer.normalize_before else x)
    if picked is None:
        first = len(plan.live)
        prefix = plan.spread(queries[:first]).unflatten(0, (plan.rows, plan.width))
        blocks = queries[first:].unflatten(0, (plan.rows, plan.masks))
        attended = source.attend(attention, torch.cat([prefix, blocks], 1).flatten(0, 1))
        attended = attended.unflatten(0, (plan.rows, -1))
        prefix, blocks = attended.split([plan.width, plan.masks], 1)
        attended = torch.cat([prefix.flatten(0, 1)[plan.live], blocks.flatten(0, 1)])
    else:
        queries = spread(queries, picked, plan.rows * plan.masks)
        attended = source.attend(attention, queries)[picked]
    return _residual(layer, norm, x, attention.out_proj(attended))


def _feed_forward(layer: Any, x: Tensor) -> Tensor:
    norm = layer.final_layer_norm
    inner = layer.activation_fn(layer.fc1(norm(x) if layer.normalize_before else x))
    return _residual(layer, norm, x, layer.fc2(layer.activation_dropout_module(inner)))


def run_packed(
    layers: list[Any],
    prefix: Tensor,
    blocks: Tensor,
    encoder_out: dict[str, list[Tensor]],
    plan: BlockPlan,
    picked: Tensor,
) -> Tensor:
    """All layers, for the masks that are asked for.

    Args:
        layers: each one as :func:`can_pack` wants it.
        prefix: [B, T, D] before the first layer.
        blocks: [B, C k, D] before the first layer.
        encoder_out: the encoder's output.
        plan: of these cuts.
        picked: long [n], places in [B C k] of the masks that are asked for.

    Returns:
        [n, D], without the final norm.
    """
    source = _Source(encoder_out)
    x = torch.cat([prefix.flatten(0, 1)[plan.live], blocks.flatten(0, 1)])
    for number, layer in enumerate(layers, 1):
        only = picked if number == len(layers) else None
        x = _own(layer, x, plan, only)
        x = _cross(layer, x, plan, source, only)
        x = _feed_forward(layer, x)
    return x if layers else x[len(plan.live) :][picked]


def run_prefix(
    layers: list[Any], prefix: Tensor, encoder_out: dict[str, list[Tensor]], plan: BlockPlan
) -> Iterator[Tensor]:
    """The states [P, D] of a prefix after each layer, without the final norm.

    Args:
        layers: each one as :func:`can_pack` wants it.
        prefix: [B, T, D] before the first layer.
        encoder_out: the encoder's output.
        plan: with blocks of no masks; cuts are the last positions that are asked for.
    """
    source = _Source(encoder_out)
    x = prefix.flatten(0, 1)[plan.live]
    for layer in layers:
        x = _own(layer, x, plan, None)
        x = _cross(layer, x, plan, source, None)
        x = _feed_forward(layer, x)
        yield x


def run_stock(
    layers: list[Any], x: Tensor, encoder_out: dict[str, list[Tensor]], allowed: Tensor, heads: int
) -> Tensor:
    """All layers by their own ``forward``, for prefix and masks.

    Args:
        layers: decoder layers as fairseq's.
        x: [B, W, D] before the first layer.
        encoder_out: the encoder's output.
        allowed: bool [B, W, W], which queries attend to which keys.
        heads: of self-attention.

    Returns:
        [B, W, D], without the final norm.
    """
    bias = x.new_zeros(allowed.shape).masked_fill_(~allowed, float("-inf"))
    bias = bias.repeat_interleave(heads, 0)
    padding = encoder_out["encoder_padding_mask"]
    x = x.transpose(0, 1)
    for layer in layers:
        x, _, _ = layer(
            x, encoder_out["encoder_out"][0], padding[0] if padding else None, self_attn_mask=bias
        )
    return x.transpose(0, 1)
