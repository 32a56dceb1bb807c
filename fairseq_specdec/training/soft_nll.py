"""Cross-entropy against another model's distribution, with as few passes over it as possible."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def soft_nll(logits: Tensor, expected: Tensor) -> Tensor:
    """What ``logits`` say of tokens drawn from the distribution of ``expected``.

    Minus the sum over v of q_v log p_v, with p of ``logits`` and q of ``expected``: the divergence
    of p from q, but for q's own entropy. Arithmetic is in fp32 whatever their type.

    Args:
        logits: [N, V], any floating type.
        expected: [N, V], likewise, without gradient.

    Returns:
        fp32 [N], nats.
    """
    loss: Tensor = _SoftNLL.apply(logits, expected)
    return loss


class _SoftNLL(torch.autograd.Function):
    """The gradient is p - q."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, expected: Tensor) -> Tensor:
        ctx.save_for_backward(logits, expected)
        log_p = torch.log_softmax(logits, dim=1, dtype=torch.float32)
        return -torch.softmax(expected, dim=1, dtype=torch.float32).mul_(log_p).sum(1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        logits, expected = ctx.saved_tensors
        # fp16 would lose small probabilities before the loss scale has lifted them
        exact = torch.float32 if logits.dtype == torch.float16 else None
        out = torch.softmax(logits, dim=1, dtype=exact)
        out.sub_(torch.softmax(expected, dim=1, dtype=exact))
        return out.mul_(grad[:, None].to(out.dtype)), None
