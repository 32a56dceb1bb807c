"""Rules that draw tokens, and how these are drawn from distributions."""

from __future__ import annotations

import torch
from torch import Tensor

from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft
from fairseq_specdec.errors import UsageError

from .rules import Acceptance, AcceptanceRule, judged, leading

# Limits the logarithm of p / q for a token whose q was rounded to zero.
_MOST = 80.0


class Sampler:
    """Truncates distributions as stock fairseq's ``Sampling`` search, and draws from them.

    Both models' distributions pass through ``warp``, after the temperature (Leviathan et al. 2023,
    section 2.2: every way of sampling is sampling from an adjusted distribution).

    Args:
        topk: ``--sampling-topk``, only the likeliest so many tokens, 1 or more; None for all.
        topp: ``--sampling-topp``, only the smallest set of likeliest tokens that holds so much
            probability, 0 < p <= 1; None for all.

    Randomness is torch's own, which ``--seed`` seeds.
    """

    def __init__(self, topk: int | None = None, topp: float | None = None) -> None:
        for name, given, possible, limits in (
            ("topk", topk, topk is None or topk >= 1, "1 or more"),
            ("topp", topp, topp is None or 0 < topp <= 1, "greater than 0, at most 1"),
        ):
            if not possible:
                flag = f"--sampling-{name} {given}"
                raise UsageError(flag, f"must be {limits}", "leave it out for all")
        if topk is not None and topp is not None:
            raise UsageError("--sampling-topk, --sampling-topp", "give one of them, not both")
        self.topk = topk
        self.topp = topp

    def warp(self, log_probs: Tensor) -> Tensor:
        """Cut a distribution down to the tokens that may be drawn. ``log_probs``: float [..., V],
        log-probabilities; they need not sum to one. Returns float [..., V], probabilities that sum
        to one (zeros where nothing is possible)."""
        probabilities, order = self._ranked(log_probs)
        if order is not None:
            probabilities = torch.zeros_like(log_probs).scatter_(-1, order, probabilities)
        mass = probabilities.sum(-1, keepdim=True)
        return probabilities / mass.clamp(min=torch.finfo(mass.dtype).tiny)

    def sample(self, log_probs: Tensor) -> Tensor:
        """Draw a token, long [B], from each distribution (``log_probs`` as for ``warp``), cut down.

        On a CPU the random numbers are used as by stock, which draws among the ranks of the
        likeliest tokens. (On a GPU, to look up how many ``topp`` leaves would wait for it.)
        """
        probabilities, order = self._ranked(log_probs)
        if order is None:
            return self.draw(probabilities)
        return order.gather(-1, self.draw(probabilities).unsqueeze(-1)).squeeze(-1)

    def _ranked(self, log_probs: Tensor) -> tuple[Tensor, Tensor | None]:
        """Probabilities of the tokens that may be drawn, likeliest first, and which tokens these
        are; those of all tokens, in their own order, and None where none is left out."""
        if self.topk is not None:
            best = log_probs.topk(min(self.topk, log_probs.size(-1)), dim=-1)
            return best.values.exp(), best.indices
        probabilities = log_probs.exp()
        if self.topp is None:
            return probabilities, None
        ranked, order = probabilities.sort(dim=-1, descending=True)
        # The token that passes the threshold is kept too.
        inside = (ranked.cumsum(-1) < self.topp).sum(-1, keepdim=True)
        rank = torch.arange(ranked.size(-1), device=ranked.device)
        ranked = ranked.masked_fill(rank > inside, 0.0)
        if ranked.device.type == "cpu":
            widest = int(inside.max()) + 1
            ranked, order = ranked[..., :widest], order[..., :widest]
        return ranked, order

    def uniform(self, like: Tensor) -> Tensor:
        """Numbers from [0, 1) in the shape of ``like``."""
        return torch.rand(like.shape, device=like.device, dtype=torch.float32)

    def draw(self, probabilities: Tensor) -> Tensor:
        """Draw a token, long [...], from each distribution: ``probabilities`` float [..., V], not
        negative, up to a factor. Exponential noise decides; unlike ``torch.multinomial`` this never
        waits for a GPU."""
        clocks = torch.empty_like(probabilities).exponential_()
        return (probabilities / clocks.clamp(min=1e-30)).argmax(-1)


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
        decisive = scores.log_probs[rows, verdict.counts]
        return verdict._replace(next_token=self.sampler.draw(self.sampler.warp(decisive)))


class SamplingRule(AcceptanceRule):
    """Speculative sampling: Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2.

    A draft token x, drawn from q, is kept with probability min(1, p(x) / q(x)). The first rejected
    one is replaced by a token drawn from the normalised positive part of p - q; after a draft that
    was kept whole, a token is drawn from p. The output is distributed as p, whatever q is.
    """

    # ``lossless`` stays False: the distribution is the verifier's; no single output is.
    draft_independent = True
    needs_draft_probabilities = True

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler

    def accept(self, draft: Draft, scores: Scores) -> Acceptance:
        log_probs = scores.log_probs
        if draft.width == 0:
            return Acceptance(torch.zeros_like(draft.sizes), self.sampler.sample(log_probs[:, 0]))
        p = self.sampler.warp(log_probs)
        assert draft.log_probs is not None
        q = draft.log_probs.exp()
        at = draft.tokens.unsqueeze(2)
        own, drawn = p[:, : draft.width].gather(2, at).squeeze(2), q.gather(2, at).squeeze(2)
        counts, weights = self.kept(draft.sizes, own, drawn, p, q)

        rows = torch.arange(p.size(0), device=p.device)
        verdict = p[rows, counts]
        rejected = (counts < draft.sizes).unsqueeze(1)
        guess = q[rows, counts.clamp(max=draft.width - 1)].masked_fill(~rejected, 0.0)
        rest = (weights.unsqueeze(1) * verdict - guess).clamp(min=0)  # up to a factor
        # Where p and q are equal but for rounding nothing is left.
        rest = torch.where(rest.sum(1, keepdim=True) > 0, rest, verdict)
        return Acceptance(counts, self.sampler.draw(rest))

    def kept(
        self, sizes: Tensor, own: Tensor, drawn: Tensor, p: Tensor, q: Tensor
    ) -> tuple[Tensor, Tensor]:
        """How many tokens of each draft of at least one token are kept.

        Args:
            sizes: long [B], tokens of each draft that count.
            own, drawn: [B, K], p and q of the draft tokens.
            p: [B, K + 1, V], the verifier's probabilities, cut down.
            q: [B, K, V].

        Returns:
            (counts long [B], w float [B]): where a token is rejected, the next one is drawn from
            the positive part of w p - q.
        """
        # u < p / q without the division; a token that the verifier forbids has p = 0.
        counts = leading(self.sampler.uniform(drawn) * drawn < own, sizes)
        return counts, torch.ones_like(own[:, 0])


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

    def kept(
        self, sizes: Tensor, own: Tensor, drawn: Tensor, p: Tensor, q: Tensor
    ) -> tuple[Tensor, Tensor]:
        width = own.size(1)
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
        columns = torch.arange(1, width + 1, device=sizes.device)
        whole = columns == sizes.unsqueeze(1)
        chances = torch.where(whole, weights[:, 1:], chances)
        kept = (self.sampler.uniform(chances) < chances) & (columns <= sizes.unsqueeze(1))
        counts = (kept * columns).amax(1)
        return counts, weights.gather(1, counts.unsqueeze(1)).squeeze(1)
