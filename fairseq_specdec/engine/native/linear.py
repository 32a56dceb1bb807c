"""A single product in the native library."""

from __future__ import annotations

import ctypes
import weakref
from typing import Optional

import torch
from torch import Tensor

from .library import Library
from .stack import FORMATS, floats

_STORE = 0  # specdec::After::kStore


class NativeLinear:
    """y = x W^T + b, a row of which has the same bits in every batch.

    Args:
        library: the loaded library.
        weight: [out, in].
        bias: [out] or None.
        number_format: a key of ``FORMATS``.
    """

    def __init__(
        self, library: Library, weight: Tensor, bias: Optional[Tensor], number_format: str
    ) -> None:
        self.library = library
        self.size, self.width = weight.shape
        weight = floats(weight)
        offset = None if bias is None else floats(bias)
        self.pointer = ctypes.c_void_p()
        library.call(
            "specdec_matrix_new", self.size, self.width, weight.data_ptr(),
            None if offset is None else offset.data_ptr(), FORMATS[number_format],
            ctypes.byref(self.pointer),
        )  # fmt: skip
        weakref.finalize(self, library.free, "specdec_matrix_free", self.pointer)

    def __call__(self, x: Tensor) -> Tensor:
        """Float32 [.., out] of [.., in]."""
        x = x.float().contiguous()
        y = torch.empty(*x.shape[:-1], self.size)
        self.library.call(
            "specdec_matrix_multiply", self.pointer, x.numel() // self.width, x.data_ptr(),
            self.width, y.data_ptr(), self.size, _STORE,
        )  # fmt: skip
        return y
