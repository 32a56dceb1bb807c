"""Keep a draft token that is among the verifier's best few and close to its best."""

from __future__ import annotations

from typing import Optional

from torch import Tensor

from .base import Acceptance, AcceptanceRule, judged


class TopBetaRule(AcceptanceRule):
    """Relaxed verification: paper 000, equations (8) and (9); paper 004, section 3.2.

    Args:
        top_beta: a draft token must be among the ``top_beta`` best tokens, 1 or more.
        tau: and at most this far (natural log) below the best one, 0 or more.
    """

    lossless = False

    def __init__(self, top_beta: int, tau: float) -> None:
        if top_beta < 1:
            raise ValueError(f"--top-beta {top_beta}: must be 1 or more")
        if not tau >= 0:
            raise ValueError(f"--tau {tau}: must be 0 or more")
        self.top_beta = top_beta
        self.tau = tau

    def accept(
        self,
        draft: Tensor,
        lengths: Tensor,
        log_probs: Tensor,
        best: Tensor,
        draft_log_probs: Optional[Tensor] = None,
    ) -> Acceptance:
        width = draft.size(1)
        scored = log_probs[:, :width]
        own = scored.gather(2, draft.unsqueeze(2)).squeeze(2)
        beta = min(self.top_beta, scored.size(2))
        top = scored.topk(beta, dim=2).values
        # A token ties its way into the top beta only with equal log-probability.
        kept = (own >= top[..., -1]) & (top[..., 0] - own <= self.tau)
        kept = kept & (own > float("-inf"))
        return judged(kept | (draft == best[:, :width]), lengths, best)
