"""Tensors as the native library's C interface takes them."""

import torch
from torch import Tensor

from ..state import Rows
from .structures import Hypotheses


def pointer(
    tensor: Tensor | None, dtype: torch.dtype = torch.float32, rows_apart: bool = False
) -> int | None:
    """Where the numbers of a tensor on the CPU lie; None for None. The caller keeps the tensor.

    Args:
        tensor: row by row, without gaps.
        dtype: that the library reads.
        rows_apart: rows (of the first dimension) may have gaps between them.

    Raises:
        TypeError: another format, device or order of the numbers.
    """
    if tensor is None:
        return None
    ordered = tensor.is_contiguous() or (rows_apart and tensor[:1].is_contiguous())
    if tensor.dtype != dtype or not ordered or tensor.device.type != "cpu":
        raise TypeError(
            f"the native library reads {dtype} row by row on the CPU, not {tensor.dtype} with "
            f"strides {tensor.stride()} on {tensor.device}"
        )
    return tensor.data_ptr()


def hypotheses_of(rows: Rows, spent: Tensor | None = None) -> Hypotheses:
    """The outputs of a batch, which the library reads and writes. ``spent``: as in
    ``AcceptanceRule``."""
    tokens, scores = rows.tokens, rows.scores
    return Hypotheses(
        pointer(tokens, torch.long), tokens.stride(0), pointer(scores), scores.stride(0),
        tokens.size(1), pointer(rows.lengths, torch.long), pointer(spent, torch.float64),
    )  # fmt: skip
