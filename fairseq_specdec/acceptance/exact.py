"""Keep a draft token only where it is the verifier's own choice."""

from __future__ import annotations

from typing import Optional

from torch import Tensor

from .base import Acceptance, AcceptanceRule, judged


class ExactRule(AcceptanceRule):
    """Top-1 match: paper 000, equations (5) and (7); paper 001, section 3.

    Whatever is drafted, the output is the verifier's greedy output.
    """

    lossless = True
    any_draft = True

    def accept(
        self,
        draft: Tensor,
        lengths: Tensor,
        log_probs: Tensor,
        best: Tensor,
        draft_log_probs: Optional[Tensor] = None,
    ) -> Acceptance:
        return judged(draft == best[:, :-1], lengths, best)
