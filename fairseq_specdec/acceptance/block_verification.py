"""Speculative sampling with block verification: the same distribution, at least as many tokens."""

import torch
from torch import Tensor

from fairseq_specdec.engine.state import Draft

from .base import Acceptance
from .sampling import SamplingRule

# Limits the logarithm of p / q for a token whose q was rounded to zero.
_MOST = 80.0


class BlockVerificationRule(SamplingRule):
    """Block verification (Sun et al. 2024, "Block verification accelerates speculative decoding").

    Draft tokens are judged together. With w_0 = 1 and w_i = min(1, w_(i-1) p(x_i) / q(x_i)), the
    first i tokens of a draft of n are accepted with probability h_i, w_n for i = n and else::

        h_i = r_i / (r_i + 1 - w_i),    r_i = sum over x of max(0, w_i p(x) - q(x))

    where p and q are given the first i tokens; the longest of the accepted beginnings is kept.
    After i < n tokens the next one is drawn from the normalised max(0, w_i p - q), after a whole
    draft from p. The output is distributed as p, with at least as many tokens accepted on average
    as by ``SamplingRule``.

    A draft that ends with a drawn </s> may be shorter than others: what would follow is certain for
    both models, so it changes nothing.
    """

    def verdict(self, draft: Draft, p: Tensor, q: Tensor) -> Acceptance:
        width, lengths = draft.width, draft.sizes
        at = draft.tokens.unsqueeze(2)
        own, drawn = p[:, :width].gather(2, at).squeeze(2), q.gather(2, at).squeeze(2)
        # [B, K + 1], log w_0 .. log w_K: a sum that is kept from rising above 0.
        total = (own.log() - drawn.log()).clamp(max=_MOST).cumsum(1)
        total = torch.nn.functional.pad(total, (1, 0))
        log_weights = total - total.cummax(1).values
        weights = log_weights.exp()

        # [B, K, V], what the verifier still has to give after i = 0 .. K - 1 tokens.
        rest = (weights[:, :width].unsqueeze(2) * p[:, :width] - q).clamp(min=0)
        left = rest.sum(2)[:, 1:]
        lacking = -torch.expm1(log_weights[:, 1:])  # 1 - w_1 .. 1 - w_K
        inner = left / (left + lacking[:, :-1]).clamp(min=torch.finfo(left.dtype).tiny)
        chances = torch.nn.functional.pad(inner, (0, 1))
        columns = torch.arange(1, width + 1, device=lengths.device)
        whole = columns == lengths.unsqueeze(1)
        chances = torch.where(whole, weights[:, 1:], chances)
        kept = (self.sampler.uniform(chances) < chances) & (columns <= lengths.unsqueeze(1))
        counts = (kept * columns).amax(1)

        rows = torch.arange(p.size(0), device=p.device)
        verdict = p[rows, counts]
        rest = torch.where(
            (counts < lengths).unsqueeze(1), rest[rows, counts.clamp(max=width - 1)], verdict
        )
        return Acceptance(counts, self._draw(rest, verdict))
