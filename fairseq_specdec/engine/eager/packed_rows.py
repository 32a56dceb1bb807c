"""Rows of a weight, read from a packed product."""

from __future__ import annotations

import ctypes
from typing import Optional

import torch
from torch import Tensor

PANELS = (64, 48, 32, 24, 16, 8)
"""How many rows a panel of oneDNN may have, if not all: those of a column of a product's tile
(64 with AVX2 and with AVX-512, all without them and for bf16 that the processor emulates)."""

_BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16}


class PackedRows:
    """Looks up rows of a weight packed for oneDNN, so that no other copy of it is needed.

    A packed weight is a row of panels. In a panel the numbers of one column (in bf16, of two) of
    some rows are contiguous: row r, column c of panels of P rows at [r // P, c, r % P]. oneDNN
    does not guarantee this layout, so ``find`` compares every number with the weight.

    Args:
        packed: what ``torch.ops.mkldnn._reorder_linear_weight`` gave.
        panel: rows in a panel.
        pair: columns that are contiguous.
        shape: [out, in] of the weight.
        dtype: of the weight.
    """

    def __init__(
        self, packed: Tensor, panel: int, pair: int, shape: torch.Size, dtype: torch.dtype
    ) -> None:
        self.packed = packed  # keeps the memory
        self.panel = panel
        self.columns = shape[1]
        panels = -(-shape[0] // panel)
        place = torch.ops.mkldnn.data_ptr(packed)
        held = (ctypes.c_char * torch.ops.mkldnn._nbytes(packed)).from_address(place)
        memory = torch.frombuffer(held, dtype=dtype)
        self.memory = memory.view(panels, -1, panel, pair)

    @classmethod
    def find(cls, packed: Tensor, weight: Tensor) -> Optional[PackedRows]:
        """The rows of ``weight`` [out, in] in ``packed``, or None where they are not found."""
        ops = torch.ops.mkldnn
        if not hasattr(ops, "data_ptr") or not hasattr(ops, "_nbytes"):
            return None  # an older torch gives no address
        bits = _BITS[weight.dtype]
        numbers = ops._nbytes(packed) // weight.element_size()
        for panel in (*PANELS, weight.size(0)):
            held = -(-weight.size(0) // panel) * panel
            for pair in (1, 2):
                if numbers < held * weight.size(1) or numbers % (held * pair):
                    continue
                rows = cls(packed, panel, pair, weight.shape, weight.dtype)
                every = torch.arange(weight.size(0)).split(2048)
                if all(torch.equal(rows(r).view(bits), weight[r].view(bits)) for r in every):
                    return rows
        return None

    def __call__(self, ids: Tensor) -> Tensor:
        """[..., in], the rows ``ids`` (long [...]), which must be there."""
        panels = torch.div(ids, self.panel, rounding_mode="floor")
        found = self.memory[panels, :, ids - panels * self.panel].flatten(-2)
        return found[..., : self.columns]
