"""Cross-entropy against target tokens and another model's distribution, over a large vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

# Logits that a CPU works on at a time: in fp32 these, and what is made of them, stay in a core's
# cache, where each pass over them takes a third of the time that it takes in memory.
_CACHED = 2**18


def target_nll(
    logits: Tensor,
    gold: Tensor,
    epsilon: float,
    expected: Tensor | None = None,
    share: float = 0.0,
    overwrite: bool = False,
) -> tuple[Tensor, Tensor]:
    """Loss and negative log-likelihood of each row.

    With e = epsilon / (V - 1), fairseq's ``label_smoothed_cross_entropy`` is
    (1 - epsilon - e) nll + e sum over v of -log p_v. The loss is (1 - share) of it and ``share`` of
    - sum over v of q_v log p_v, with q of ``expected``: the divergence of p from q, but for q's own
    entropy. Nothing of the vocabulary's size is kept for the backward pass but the two arguments,
    and arithmetic is in fp32 whatever their type.

    Args:
        logits: [N, V], any floating type.
        gold: long [N].
        epsilon: in [0, 1).
        expected: [N, V], the other model's logits, any floating type, without gradient.
        share: in [0, 1]; 0 without ``expected``.
        overwrite: the backward pass, which can then run once, writes the gradient over the logits:
            another table of their size takes as long to allocate as to fill. For logits that
            nothing else keeps, as those of a linear layer.

    Returns:
        fp32 [N] losses, and fp32 [N] negative log-likelihoods (nats), the latter without gradient.
    """
    loss, nll = _TargetNLL.apply(logits, gold, epsilon, expected, share, overwrite)
    return loss, nll


def _parts(logits: Tensor) -> Iterator[slice]:
    """Rows to work on at a time: all of them where it is not a CPU that does."""
    rows, words = logits.shape
    size = rows if logits.device.type != "cpu" else max(1, _CACHED // words)
    for first in range(0, rows, max(1, size)):
        yield slice(first, first + size)


class _TargetNLL(torch.autograd.Function):
    """The gradient is p, less the target's share, less what every token has, less q's share."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        gold: Tensor,
        epsilon: float,
        expected: Tensor | None,
        share: float,
        overwrite: bool,
    ) -> tuple[Tensor, Tensor]:
        each = epsilon / (logits.size(1) - 1)  # what the smoothed loss takes of every token
        own = 1.0 - epsilon - each  # and of the target
        nll = logits.new_empty(logits.size(0), dtype=torch.float32)
        loss = torch.empty_like(nll)
        for part in _parts(logits):
            log_p = torch.log_softmax(logits[part], dim=1, dtype=torch.float32)
            nll[part] = -log_p.gather(1, gold[part, None])[:, 0]
            loss[part] = own * nll[part]
            if each > 0:
                loss[part] -= each * log_p.sum(1)
            if expected is not None:
                q = torch.softmax(expected[part], dim=1, dtype=torch.float32)
                loss[part] = (1.0 - share) * loss[part] - share * q.mul_(log_p).sum(1)
        ctx.save_for_backward(logits, gold, expected)
        ctx.own, ctx.each, ctx.share, ctx.overwrite = own, each, share, overwrite
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        logits, gold, expected = ctx.saved_tensors
        own, each = ctx.own * (1.0 - ctx.share), ctx.each * (1.0 - ctx.share)
        out = logits.detach() if ctx.overwrite else torch.empty_like(logits)
        for part in _parts(logits):
            # fp16 would lose small probabilities before the loss scale has lifted them.
            rest = torch.softmax(logits[part], dim=1, dtype=torch.float32)
            target = gold[part, None]
            rest.scatter_add_(1, target, rest.new_full(target.shape, -own))
            if each > 0:
                rest.sub_(each)
            if expected is not None:
                q = torch.softmax(expected[part], dim=1, dtype=torch.float32)
                rest.sub_(q, alpha=ctx.share)
            out[part] = rest.mul_(grad[part, None])
        return out, None, None, None, None, None
