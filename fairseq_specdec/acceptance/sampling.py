"""Speculative sampling: the output has the distribution of the verifier's own samples."""

import torch
from torch import Tensor

from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft
from fairseq_specdec.errors import UsageError

from .base import Acceptance, AcceptanceRule, leading


class Sampler:
    """Truncates distributions as stock fairseq's ``Sampling`` search, and draws from them.

    Both models' distributions pass through ``warp``, after the temperature (Leviathan et al. 2023,
    section 2.2: every way of sampling is sampling from an adjusted distribution).

    Args:
        topk: ``--sampling-topk``, only the likeliest so many tokens, 1 or more; None for all.
        topp: ``--sampling-topp``, only the smallest set of likeliest tokens that holds so much
            probability, 0 < p <= 1; None for all.
        generator: source of randomness; None for torch's own, which ``--seed`` seeds.
    """

    def __init__(
        self,
        topk: int | None = None,
        topp: float | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if topk is not None and topk < 1:
            raise UsageError(f"--sampling-topk {topk}", "must be 1 or more", "leave it out for all")
        if topp is not None and not 0 < topp <= 1:
            raise UsageError(
                f"--sampling-topp {topp}",
                "must be greater than 0, at most 1",
                "leave it out for all",
            )
        if topk is not None and topp is not None:
            raise UsageError("--sampling-topk, --sampling-topp", "give one of them, not both")
        self.topk = topk
        self.topp = topp
        self.generator = generator

    def warp(self, log_probs: Tensor) -> Tensor:
        """Cut a distribution down to the tokens that may be drawn. ``log_probs``: float [..., V],
        log-probabilities; they need not sum to one. Returns float [..., V], probabilities that sum
        to one (zeros where nothing is possible)."""
        probabilities, order = self._ranked(log_probs)
        if order is not None:
            nothing = torch.zeros_like(log_probs)
            probabilities = nothing.scatter_(-1, order, probabilities)
        mass = probabilities.sum(-1, keepdim=True)
        return probabilities / mass.clamp(min=torch.finfo(mass.dtype).tiny)

    def sample(self, log_probs: Tensor) -> Tensor:
        """Draw a token from each distribution, cut down.

        On a CPU the random numbers are used as by stock, which draws among the ranks of the
        likeliest tokens. (On a GPU, to look up how many ``topp`` leaves would wait for it.)

        Args:
            log_probs: float [B, V], as for ``warp``.

        Returns:
            long [B].
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
        shape = like.shape
        return torch.rand(shape, generator=self.generator, device=like.device, dtype=torch.float32)

    def draw(self, probabilities: Tensor) -> Tensor:
        """Draw a token from each distribution.

        Exponential noise decides; unlike ``torch.multinomial`` this never waits for a GPU.

        Args:
            probabilities: float [..., V], not negative, up to a factor.

        Returns:
            long [...].
        """
        clocks = torch.empty_like(probabilities).exponential_(generator=self.generator)
        return (probabilities / clocks.clamp(min=1e-30)).argmax(-1)


class SamplingRule(AcceptanceRule):
    """Speculative sampling: Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2.

    A draft token x, drawn from q, is kept with probability min(1, p(x) / q(x)). The first rejected
    one is replaced by a token drawn from the normalised positive part of p - q; after a draft that
    was kept whole, a token is drawn from p. The output is distributed as p, whatever q is.
    """

    # The distribution is the verifier's; no single output is.
    lossless = False
    draft_independent = True
    needs_draft_probabilities = True

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler

    def accept(self, draft: Draft, scores: Scores) -> Acceptance:
        log_probs = scores.dense()
        if draft.width == 0:
            return Acceptance(torch.zeros_like(draft.sizes), self.sampler.sample(log_probs[:, 0]))
        p = self.sampler.warp(log_probs)
        if draft.log_probs is None:
            raise UsageError(
                "--sampling", "the drafter does not say what its drafts were drawn from"
            )
        return self.verdict(draft, p, draft.log_probs.exp())

    def verdict(self, draft: Draft, p: Tensor, q: Tensor) -> Acceptance:
        """Judge drafts of one token or more.

        Args:
            draft: drawn from q.
            p: [B, K + 1, V], the verifier's probabilities, cut.
            q: [B, K, V].
        """
        width, lengths = draft.width, draft.sizes
        at = draft.tokens.unsqueeze(2)
        own, drawn = p[:, :width].gather(2, at).squeeze(2), q.gather(2, at).squeeze(2)
        # u < p / q without the division; a token that the verifier forbids has p = 0.
        counts = leading(self.sampler.uniform(drawn) * drawn < own, lengths)

        rows = torch.arange(p.size(0), device=p.device)
        verdict = p[rows, counts]
        rejected = (counts < lengths).unsqueeze(1)
        guess = q[rows, counts.clamp(max=width - 1)].masked_fill(~rejected, 0.0)
        return Acceptance(counts, self._draw((verdict - guess).clamp(min=0), verdict))

    def _draw(self, rest: Tensor, verdict: Tensor) -> Tensor:
        """Long [B], drawn from ``rest`` (float [B, V], up to a factor), or from the verifier's
        distribution where p and q are equal but for rounding, so that nothing is left."""
        rest = torch.where(rest.sum(1, keepdim=True) > 0, rest, verdict)
        return self.sampler.draw(rest)
