"""Label-smoothed cross-entropy over a large vocabulary, with as few passes over it as possible."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def smoothed_nll(logits: Tensor, gold: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Loss and negative log-likelihood of each row.

    The loss is fairseq's ``label_smoothed_cross_entropy``: with e = epsilon / (V - 1), it is
    (1 - epsilon - e) nll + e sum over v of -log p_v. Nothing of the vocabulary's size is kept for
    the backward pass but the logits themselves, and arithmetic is in fp32 whatever their type.

    Args:
        logits: [N, V], any floating type.
        gold: long [N].
        epsilon: in [0, 1).

    Returns:
        fp32 [N] losses, and fp32 [N] negative log-likelihoods (nats), the latter without gradient.
    """
    loss, nll = _SmoothedNLL.apply(logits, gold, epsilon)
    return loss, nll


def _shares(epsilon: float, size: int) -> tuple[float, float]:
    """What the loss takes of the gold token, and of every token."""
    each = epsilon / (size - 1)
    return 1.0 - epsilon - each, each


class _SmoothedNLL(torch.autograd.Function):
    """The gradient is p - each, and ``share`` less for the gold token."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, gold: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
        share, each = _shares(epsilon, logits.size(1))
        log_p = torch.log_softmax(logits, dim=1, dtype=torch.float32)
        nll = -log_p.gather(1, gold[:, None])[:, 0]
        loss = share * nll - each * log_p.sum(1) if epsilon > 0 else nll.clone()
        ctx.save_for_backward(logits, gold)
        ctx.epsilon = epsilon
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        logits, gold = ctx.saved_tensors
        share, each = _shares(ctx.epsilon, logits.size(1))
        # fp16 would lose small probabilities before the loss scale has lifted them
        exact = torch.float32 if logits.dtype == torch.float16 else None
        out = torch.softmax(logits, dim=1, dtype=exact)
        out.scatter_add_(1, gold[:, None], out.new_full((gold.numel(), 1), -share))
        if each > 0:
            out.sub_(each)
        return out.mul_(grad[:, None].to(out.dtype)), None, None
