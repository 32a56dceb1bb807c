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
        own_choice = best[:, : draft.size(1)]
        matches = draft == own_choice
        scored = log_probs[:, : draft.size(1)]
        own = scored.gather(2, draft.unsqueeze(2))
        gap = scored.gather(2, own_choice.unsqueeze(2)) - own
        near = ((gap <= self.tau) & (own > float("-inf"))).squeeze(2)
        # Only these depend on the rank, and hardly any of them is reached.
        asked = near & ~matches & (near | matches).cumprod(1).bool()
        return judged(matches | self._ranked(scored, own, asked), lengths, best)

    def _ranked(self, scored: Tensor, own: Tensor, asked: Tensor) -> Tensor:
        """Where the rank is asked for and within the top beta; a tie shares the better rank.

        Args:
            scored: float [B, K, V].
            own: float [B, K, 1], of the draft tokens.
            asked: bool [B, K].
        """
        if scored.is_cuda:  # picking positions would wait for the device
            return asked & ((scored > own).sum(2) < self.top_beta)
        ranked = asked.clone()
        ranked[asked] = (scored[asked] > own[asked]).sum(1) < self.top_beta
        return ranked
