"""Accept at least a given number of tokens."""

from collections.abc import Sequence

import torch

from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft

from .base import Acceptance, AcceptanceRule, leading


class MinimumBlockRule(AcceptanceRule):
    """At least l tokens are added in every iteration: Stern et al. 2018, section 5.3.

    The verifier's own token is one of them, so the first l - 1 draft tokens are kept without
    a judgement, if there are so many and the decoding constraints allow them.

    Args:
        rule: judges the rest.
        minimum: l, 1 or more; 1 leaves the rule as it is.
    """

    def __init__(self, rule: AcceptanceRule, minimum: int) -> None:
        self.rule = rule
        self.minimum = minimum
        self.lossless = rule.lossless and minimum == 1
        self.draft_independent = rule.draft_independent and minimum == 1
        self.needs_draft_probabilities = rule.needs_draft_probabilities
        self.keeps_forced = rule.keeps_forced

    def read_vocabulary(self, symbols: Sequence[str]) -> None:
        self.rule.read_vocabulary(symbols)

    def accept(self, draft: Draft, scores: Scores) -> Acceptance:
        verdict = self.rule.accept(draft, scores)
        if self.minimum == 1 or draft.width == 0:
            return verdict
        possible = scores.gap(draft.tokens) < float("inf")
        forced = leading(possible, draft.sizes).clamp(max=self.minimum - 1)
        counts = torch.maximum(verdict.counts, forced)
        own_token = scores.best().gather(1, counts.unsqueeze(1)).squeeze(1)
        next_token = torch.where(counts == verdict.counts, verdict.next_token, own_token)
        return Acceptance(counts, next_token)
