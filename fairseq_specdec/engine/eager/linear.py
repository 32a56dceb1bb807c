"""Matrix products with weights packed once for this CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .allocator import give_back_freed_memory
from .packed_module import PackedModule, packed_product_of

DIRECT = 2**19
"""Multiplications of one fp32 product up to which it is faster unpacked: a packed one takes some
10 us to call (measured on an AMD EPYC, 64 x 64 to 1,024 x 256 and 6,024 x 64, 1 to 40 rows)."""

# What torch's own Transformer layers use for the first product of a feed-forward sublayer.
FUSED_RELU = getattr(torch, "_addmm_activation", None)

SMALL = 2**17
"""Numbers in a weight from which on even one row is as fast packed (256 x 512: 16 us for 15; 768 x
256: 44 for 98), so that nothing needs the weight itself."""


@functools.cache
def packs(dtype: torch.dtype) -> bool:
    """Whether oneDNN has a packed product for this number format here."""
    ops = torch.ops.mkldnn
    if not torch.backends.mkldnn.is_available() or not hasattr(ops, "_linear_pointwise"):
        return False
    try:
        ops._reorder_linear_weight(torch.zeros(1, 1, dtype=dtype), 16)
    except (AttributeError, RuntimeError):  # not in this torch; not on this CPU
        return False
    return True


def _can_prepack(weight: Tensor) -> bool:
    """oneDNN's packed product: fp32 or bf16 on a CPU, where this torch and the CPU have it."""
    known = weight.dtype in (torch.float32, torch.bfloat16)
    return weight.device.type == "cpu" and known and packs(weight.dtype)


def computes_in_bf16() -> bool:
    """Whether this CPU multiplies bf16 natively; others emulate it."""
    native = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return native is not None and bool(native())


def padded(rows: int) -> int:
    """How many rows to compute for ``rows``: rounded up to one of a few numbers.

    oneDNN makes a program for every number of rows of every product, which takes some 0.5 ms and
    0.6 MB and is kept, up to 1,024 of them. In a batch with a changing number of rows hardly any
    number would occur twice.
    """
    for limit, step in ((16, 1), (64, 4), (256, 16)):
        if rows <= limit:
            return -(-rows // step) * step
    return -(-rows // 64) * 64


class Linear:
    """y = x W^T + b for inference.

    On a CPU the product of a few rows is repacked for oneDNN: torch's default path costs almost
    linearly in its rows on some CPUs, and verification pays only if more rows cost little. Small
    products use the default path, which is faster for them.

    Args:
        weight: [out, in].
        bias: [out] or None.
    """

    rows: Callable[[Tensor], Tensor] | None = None  # no embedding is looked up in it

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        weight = weight.detach()
        self.size = weight.size(0)
        self.bias = None if bias is None else bias.detach()
        self.weight: Tensor | None = weight
        self.packed: Tensor | None = None
        if _can_prepack(weight):
            # The row count is a hint for the layout, not a limit.
            self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 16)
            if weight.dtype != torch.float32 or weight.numel() >= SMALL:
                self.weight = None  # no product needs it

    @classmethod
    def of(cls, *modules: nn.Module, free_unpacked: bool = False) -> Linear:
        """One product for several nn.Linear of the same input, outputs side by side.

        Args:
            modules: read now.
            free_unpacked: free the modules' own weights where every product can use the packed one.
                Reading a module's weight afterwards unpacks it (``PackedModule``).
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
        if free_unpacked and product.weight is None:
            PackedModule.replace(modules, product)
            del weights, weight
            give_back_freed_memory()
        return product

    def unpacked(self) -> Tensor:
        """[out, in], the weight as it was."""
        if self.weight is not None:
            return self.weight
        assert self.packed is not None
        return self.packed.to_dense()

    def activated(self, x: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
        """``activation(self(x))``; ReLU on a GPU in the kernel of the product."""
        if not x.is_cuda or activation is not F.relu or FUSED_RELU is None or self.bias is None:
            return activation(self(x))
        assert self.weight is not None
        y: Tensor = FUSED_RELU(self.bias, x.flatten(0, -2), self.weight.t())
        return y.view(*x.shape[:-1], -1)

    def __call__(self, x: Tensor) -> Tensor:
        if self.packed is None or (self.weight is not None and x.numel() * self.size <= DIRECT):
            assert self.weight is not None, "a weight is plain or packed"
            return F.linear(x, self.weight, self.bias)
        rows = x.numel() // x.size(-1)
        more = padded(rows) - rows
        if more:
            shape = x.shape[:-1]
            x = F.pad(x.reshape(rows, -1), (0, 0, 0, more))
        y = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        return y[:rows].view(*shape, -1) if more else y  # type: ignore[no-any-return]
