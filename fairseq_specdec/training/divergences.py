"""How far a small model's distributions are from its verifier's: Zhou et al. 2024 (DistillSpec)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .target_nll import target_nll


def forward_kl(logits: Tensor, expected: Tensor) -> Tensor:
    """KL(p || q)."""
    anything = expected.new_zeros(len(expected), dtype=torch.long)
    cross_entropy, _ = target_nll(logits, anything, 0.0, expected, 1.0)
    log_p = torch.log_softmax(expected, 1, dtype=torch.float32)
    return cross_entropy + (log_p.exp() * log_p).sum(1)


def reverse_kl(logits: Tensor, expected: Tensor) -> Tensor:
    """KL(q || p)."""
    log_q = torch.log_softmax(logits, 1, dtype=torch.float32)
    log_p = torch.log_softmax(expected, 1, dtype=torch.float32)
    return (log_q.exp() * (log_q - log_p)).sum(1)


def jensen_shannon(logits: Tensor, expected: Tensor) -> Tensor:
    """The mean of KL(p || m) and KL(q || m), where m is the mean of p and q."""
    log_q = torch.log_softmax(logits, 1, dtype=torch.float32)
    log_p = torch.log_softmax(expected, 1, dtype=torch.float32)
    q, p = log_q.exp(), log_p.exp()
    log_m = torch.logaddexp(log_p, log_q) - torch.log(q.new_tensor(2.0))
    return (p * (log_p - log_m) + q * (log_q - log_m)).sum(1) / 2


def total_variation(logits: Tensor, expected: Tensor) -> Tensor:
    """Half of the sum of |p - q|: the chance that speculative sampling rejects a token (Leviathan
    et al. 2023, corollary 3.6)."""
    q = torch.softmax(logits, 1, dtype=torch.float32)
    p = torch.softmax(expected, 1, dtype=torch.float32)
    return (q - p).abs().sum(1) / 2


DIVERGENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "forward-kl": forward_kl,
    "reverse-kl": reverse_kl,
    "jsd": jensen_shannon,
    "tvd": total_variation,
}
"""By ``--divergence``: fp32 [N], in nats (``tvd``: a probability), of logits [N, V], whose softmax
is q and which get the gradient, and those of the verifier [N, V], whose softmax is p."""
