"""Keep a draft token unless the verifier finds it too unlikely."""

import torch

from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft

from .base import Acceptance, AcceptanceRule, judged
from .sampling import Sampler


class RollbackRule(AcceptanceRule):
    """The rollback policy of Big Little Decoder (Kim et al. 2023, section 3.4 and equation 3).

    The distance d is the cross-entropy between the small model's token and the big model's
    distribution (section 4.1), -log p_big(token) in nats. At the first pending token whose distance
    exceeds ``alpha_rb``, that token and all after it are dropped and the big model's own token
    replaces it; where there is none, the big model's next token is appended (Algorithm 1,
    lines 10 to 16). A token that is forbidden (log-probability -inf) is dropped at any threshold.
    </s> from the small model ends the sentence, and its pending tokens are never judged (line 2).

    Args:
        alpha_rb: the threshold, 0 or more. 0 drops every token whose probability is below 1, and
            trusts no </s>, so that the output is the verifier's; infinity keeps every token that is
            not forbidden.
        sampler: draws the big model's token (section 7.4), by the same policy; None takes its
            likeliest one.
    """

    lossless = False

    def __init__(self, alpha_rb: float, sampler: Sampler | None = None) -> None:
        self.alpha_rb = alpha_rb
        self.trusts_endings = alpha_rb > 0
        self.sampler = sampler

    def accept(self, draft: Draft, scores: Scores) -> Acceptance:
        own = scores.of(draft.tokens)
        kept = (-own <= self.alpha_rb) & (own > float("-inf"))
        verdict = judged(kept, draft.sizes, scores.best())
        if self.sampler is None:
            return verdict
        rows = torch.arange(own.size(0), device=own.device)
        decisive = scores.dense()[rows, verdict.counts]
        return verdict._replace(next_token=self.sampler.draw(self.sampler.warp(decisive)))
