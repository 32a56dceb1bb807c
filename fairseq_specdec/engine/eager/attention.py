"""Scaled dot-product attention."""

import contextlib
import threading
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

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


_KERNELS = _OtherKernels()


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
    with _KERNELS if q.is_cuda and q.dtype in _HALVES else contextlib.nullcontext():
        out = F.scaled_dot_product_attention(q, key, value, attn_mask=mask)
    return out.transpose(1, 2).flatten(2)
