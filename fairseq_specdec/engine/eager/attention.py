"""Scaled dot-product attention, by whichever way is fastest here, on old and new torch."""

import contextlib
import math
import threading
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

FUSED = getattr(F, "scaled_dot_product_attention", None)


# Up to so many queries a row, and from so many rows on, two batched products are faster on a
# processor than torch's fused kernel, which makes a small product of every head of every row.
# Measured in fp32, 2 threads, 4 heads, 40 keys, microseconds fused and not: 14 and 18 (1 row, 3
# queries), 38 and 26 (4 rows), 64 and 36 (8 rows), 484 and 110 (32 rows).
_FEW_QUERIES = 16
_ROWS = 3
_ROWS_IN_HALF = 16


_HALVES = (torch.float16, torch.bfloat16)


class _OtherKernels:
    """While it is entered, torch takes no kernels of cuDNN for attention.

    On Hopper and Blackwell cards it prefers them in 16 bits, and they are slow to start: an
    iteration of Transformer-base took 36 ms on an H200 in fp16, and 2.3 in fp32, where cuDNN has
    none. Others report the same; without them it was not timed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0  # threads
        self._before = False

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = torch.backends.cuda.cudnn_sdp_enabled()
                torch.backends.cuda.enable_cudnn_sdp(False)
            self._inside += 1

    def __exit__(self, *error: Any) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                torch.backends.cuda.enable_cudnn_sdp(self._before)


_KERNELS: AbstractContextManager[None] = contextlib.nullcontext()
if hasattr(torch.backends.cuda, "cudnn_sdp_enabled"):  # torch 2.4 or newer
    _KERNELS = _OtherKernels()


def prefers_fused(query: Tensor) -> bool:
    """Whether torch's fused kernel is there and the best choice for queries [B, W, H, D]."""
    rows, width = query.shape[:2]
    if FUSED is None or query.is_cuda or width == 1 or width > _FEW_QUERIES:
        return FUSED is not None
    return rows < (_ROWS if query.dtype in (torch.float32, torch.float64) else _ROWS_IN_HALF)


def additive(mask: Tensor, like: Tensor) -> Tensor:
    """A bool mask as numbers, for a GPU: torch's fused kernel would convert it in every layer.

    Args:
        mask: bool [.., T], True where attention is allowed.
        like: gives the number format.

    Returns:
        [.., T], 0 where attention is allowed, else -inf. Its memory is as that kernel wants it:
        rows begin at multiples of 16 numbers.
    """
    slots = mask.size(-1)
    padded = F.pad(mask, (0, -slots % 16))
    numbers = torch.where(padded, 0.0, float("-inf")).to(like.dtype)
    return numbers[..., :slots]


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
    if prefers_fused(query):
        assert FUSED is not None
        with _KERNELS if q.is_cuda and q.dtype in _HALVES else contextlib.nullcontext():
            out = FUSED(q, key, value, attn_mask=mask)
    else:
        scores = torch.matmul(q * (1 / math.sqrt(q.size(-1))), key.transpose(2, 3))
        if mask is not None and mask.dtype == torch.bool:
            scores.masked_fill_(~mask, float("-inf"))
        elif mask is not None:
            scores += mask
        out = torch.matmul(torch.softmax(scores.float(), -1).to(value.dtype), value)
    joined: Tensor = out.transpose(1, 2).flatten(2)
    return joined
