"""Tensors as the native library's C interface takes them."""

import torch
from torch import Tensor

from ..state import Rows
from .structures import Hypotheses


def pointer(tensor: Tensor | None, dtype: torch.dtype = torch.float32) -> int | None:
    """Where the numbers of a tensor on the CPU lie; None for None. The caller keeps the tensor.

    Raises:
        TypeError: another format, device or order of the numbers than row by row, without gaps.
    """
    if tensor is None:
        return None
    if tensor.dtype != dtype or not tensor.is_contiguous() or tensor.device.type != "cpu":
        raise TypeError(
            f"the native library reads {dtype} row by row on the CPU, not {tensor.dtype} with "
            f"strides {tensor.stride()} on {tensor.device}"
        )
    return tensor.data_ptr()


def hypotheses_of(rows: Rows, spent: Tensor | None = None) -> Hypotheses:
    """The outputs of a batch, which the library reads and writes. ``spent``: as in
    ``AcceptanceRule``."""
    return Hypotheses(
        rows.tokens.size(1), pointer(rows.tokens, torch.long), pointer(rows.scores),
        pointer(rows.lengths, torch.long), pointer(spent, torch.float64),
    )  # fmt: skip
