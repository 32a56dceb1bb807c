"""Matrix products of the torch backend."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .packed_module import PackedModule, give_back_freed_memory, packed_product_of

PACKED_FROM = 2**17
"""Numbers in a weight from which on even one row is as fast packed (256 x 512: 16 us for 15; 768 x
256: 44 for 98). A packed product takes some 10 us to call, so smaller ones stay plain."""


def _can_prepack(weight: Tensor) -> bool:
    """Whether oneDNN has a packed product for a weight: in fp32 on a CPU."""
    in_fp32 = weight.dtype == torch.float32 and weight.device.type == "cpu"
    return in_fp32 and torch.backends.mkldnn.is_available()


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
    """

    rows: Callable[[Tensor], Tensor] | None = None  # no embedding is looked up in it

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.detach()
        self.size = weight.size(0)
        self.bias = None if bias is None else bias.detach()
        self.packed = weight.numel() >= PACKED_FROM and _can_prepack(weight)
        if self.packed:
            # The row count is a hint for the layout, not a limit.
            weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 16)
        self.weight = weight

    @classmethod
    def of(cls, *modules: nn.Module, free_unpacked: bool = False) -> Linear:
        """One product for several nn.Linear of the same input, outputs side by side.

        Args:
            modules: read now.
            free_unpacked: free the modules' own weights where they were packed. Reading a module's
                weight afterwards unpacks it (``PackedModule``).
        """
        home = packed_product_of(modules)
        if isinstance(home, cls):
            return home
        weights: list[Tensor] = [m.weight.detach() for m in modules]  # type: ignore[misc,operator]
        weight = torch.cat(weights) if len(weights) > 1 else weights[0]  # one alone needs no copy
        biases: list[Tensor] = [m.bias for m in modules if m.bias is not None]  # type: ignore
        if biases and len(biases) != len(modules):
            raise ValueError("projections of one attention, some with and some without bias")
        product = cls(weight, torch.cat(biases) if biases else None)
        if free_unpacked and product.packed:
            PackedModule.replace(modules, product)
            del weights, weight
            give_back_freed_memory()
        return product

    def unpacked(self) -> Tensor:
        """[out, in], the weight as it was."""
        return self.weight.to_dense() if self.packed else self.weight

    def activated(self, x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
        """``activation(self(x))``; ReLU on a GPU in the kernel of the product."""
        if not x.is_cuda or activation is not F.relu or self.bias is None:
            return activation(self(x))
        y: Tensor = torch._addmm_activation(self.bias, x.flatten(0, -2), self.weight.t())
        return y.view(*x.shape[:-1], -1)

    def __call__(self, x: Tensor) -> Tensor:
        if not self.packed:
            return F.linear(x, self.weight, self.bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self.weight, self.bias, "none", [], ""
        )
        return product
