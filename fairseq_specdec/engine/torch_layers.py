"""Products, norms and attention of the torch backend."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .memory import joined

PACKED_FROM = 2**17
"""Numbers in a weight from which on even one row is as fast packed (256 x 512: 16 us for 15; 768 x
256: 44 for 98). A packed product takes some 10 us to call, so smaller ones stay plain."""


def computes_in_bf16() -> bool:
    """Whether this CPU multiplies bf16 natively; others emulate it."""
    native = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return native is not None and bool(native())


class Linear:
    """y = x W^T + b for inference.

    On a CPU a large weight is repacked for oneDNN: without that the time of a product grows almost
    linearly with its rows on some CPUs, and verification pays only if more rows cost little.

    Args:
        weight: [out, in].
        bias: [out] or None.
        packs: repack it where that pays.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, packs: bool = True) -> None:
        weight = weight.detach()
        self.size = weight.size(0)
        self.bias = None if bias is None else bias.detach()
        self.folded = False  # ``fold_biases`` has moved the bias
        known = weight.dtype == torch.float32 and weight.device.type == "cpu"
        known = known and torch.backends.mkldnn.is_available()
        self.packed = packs and known and weight.numel() >= PACKED_FROM
        if self.packed:
            # The row count is a hint for the layout, not a limit.
            weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 16)
        self.weight = weight

    @classmethod
    def of(cls, *modules: Any, packs: bool = True) -> Linear:
        """One product for several nn.Linear of the same input, outputs side by side."""
        weight = joined([module.weight for module in modules])
        assert weight is not None
        return cls(weight, joined([module.bias for module in modules]), packs)

    def activated(self, x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
        """``activation(self(x))``; ReLU on a GPU in the kernel of the product."""
        if not x.is_cuda or activation is not F.relu or self.bias is None:
            return activation(self(x))
        y: Tensor = torch._addmm_activation(self.bias, x.flatten(0, -2), self.weight.t())
        return y.view(*x.shape[:-1], -1)

    def onto(self, residual: Tensor, x: Tensor) -> Tensor:
        """``residual + self(x)``, [.., out]; in ``residual`` itself where the bias is folded."""
        if not self.folded:
            return residual + self(x)
        total = residual.flatten(0, -2).addmm_(x.flatten(0, -2), self.weight.t())
        return total.view(residual.shape)

    def __call__(self, x: Tensor) -> Tensor:
        if not self.packed:
            return F.linear(x, self.weight, self.bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self.weight, self.bias, "none", [], ""
        )
        return product


def norm_of(module: nn.LayerNorm) -> Callable[[Tensor], Tensor]:
    """A norm for inference; to call its module takes twice the time for a few rows."""
    return functools.partial(
        torch.layer_norm, normalized_shape=module.normalized_shape, eps=module.eps,
        weight=module.weight.detach(), bias=module.bias.detach(),
    )  # fmt: skip


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(q k^T / sqrt(D)) v.

    Args:
        query: [B, W, H, D].
        key: [B, H, T, D].
        value: [B, H, T, D].
        mask: bool, broadcastable to [B, H, W, T], True where attention is allowed, or as
            ``additive`` gives it; or None.

    Returns:
        [B, W, H D].
    """
    q = query.transpose(1, 2)
    out = F.scaled_dot_product_attention(q, key, value, attn_mask=mask)
    return out.transpose(1, 2).flatten(2)


class Layer:
    """The weights of an encoder layer, as products to call; those that a decoder layer has too.
    ``packs``: as for ``Linear``.

    Class attributes:
        sublayers: of each the first product, the last product, and the norm.
    """

    sublayers = [("qkv", "out", "self_norm"), ("fc1", "fc2", "final_norm")]

    def __init__(self, layer: Any, packs: bool) -> None:
        self.of = functools.partial(Linear.of, packs=packs)
        attention = layer.self_attn
        self.pre_norm, self.heads = layer.normalize_before, attention.num_heads
        self.qkv = self.of(attention.q_proj, attention.k_proj, attention.v_proj)
        self.out = self.of(attention.out_proj)
        self.fc1, self.fc2 = self.of(layer.fc1), self.of(layer.fc2)
        self.activation = layer.activation_fn
        self.self_norm = norm_of(layer.self_attn_layer_norm)
        self.final_norm = norm_of(layer.final_layer_norm)

    def feed_forward(self, x: Tensor) -> Tensor:
        """The last sublayer, with its residual and norm."""
        residual = x
        if self.pre_norm:
            x = self.final_norm(x)
        x = self.fc2.onto(residual, self.fc1.activated(x, self.activation))
        return x if self.pre_norm else self.final_norm(x)


def fold_biases(layers: Sequence[Layer], read: Collection[int] = ()) -> None:
    """Let a GPU add residuals in the kernels of products, which then add no bias.

    Instead the norm before a sublayer adds the bias b of its last product, and its first product,
    of weight W, subtracts W b. Only norms after a residual can do so.

    Args:
        layers: of a stack, in their order.
        read: layers, counted from 1, whose output is read elsewhere and must stay as it is.
    """
    before: Any = None
    for number, layer in enumerate(layers, start=1):
        for names in layer.sublayers if layer.out.weight.is_cuda and not layer.pre_norm else ():
            parts: list[Any] = [getattr(layer, name, None) for name in names]
            first, last, norm = parts
            if norm is None:  # a decoder that does not attend to the source
                continue
            if before is not None and first.bias is not None and last.bias is not None:
                bias, kind = last.bias.float(), last.bias.dtype
                before["bias"] = (before["bias"].float() + bias).to(kind)
                first.bias = (first.bias.float() - first.weight.float() @ bias).to(kind)
                last.bias, last.folded = None, True
            before = norm.keywords
        before = None if number in read else before


class PackedHeads:
    """Heads ``first`` .. ``last`` of a ``BlockHeads``, packed for this CPU.

    Args:
        first, last: numbers of learned heads.
        linear: makes a product of a weight and a bias.
    """

    def __init__(
        self,
        heads: Any,
        first: int,
        last: int,
        linear: Callable[[Tensor, Tensor], Callable[[Tensor], Tensor]] = Linear,
    ) -> None:
        self.activation = heads.activation
        rows = heads.rows(first, last)
        self.hidden = linear(heads.hidden.weight, heads.hidden.bias)
        self.output = linear(heads.output.weight[rows], heads.output.bias[rows])
        self.count = last - first + 1

    def __call__(self, features: Tensor) -> Tensor:
        """[.., C] decoder features to [.., n, C], ready for the vocabulary projection."""
        x = self.output(self.activation(self.hidden(features)))
        heads: Tensor = x.unflatten(-1, (self.count, features.size(-1)))
        return features.unsqueeze(-2) + heads
