"""Scaled dot-product attention over [B, T, H, D] tensors, on old and new torch."""

from __future__ import annotations

import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

_FUSED = getattr(F, "scaled_dot_product_attention", None)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor]) -> Tensor:
    """softmax(q k^T / sqrt(D)) v.

    Args:
        query: [B, W, H, D].
        key: [B, T, H, D].
        value: [B, T, H, D].
        mask: bool, broadcastable to [B, H, W, T], True where attention is allowed; or None.

    Returns:
        [B, W, H D].
    """
    q, k, v = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    if _FUSED is not None:
        out = _FUSED(q, k, v, attn_mask=mask)
    else:
        scores = torch.matmul(q * (1 / math.sqrt(q.size(-1))), k.transpose(2, 3))
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        out = torch.matmul(torch.softmax(scores.float(), -1).to(v.dtype), v)
    return out.transpose(1, 2).flatten(2)
