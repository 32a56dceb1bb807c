"""Decoding with a chain: the tokens of a block, chosen from the left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fairseq_specdec.engine.eager.linear import Linear

from .base import DraftOptions
from .token_choice import kept_lengths

# Candidates of the chain at each mask: for one row, and for each of several rows, where the time of
# more candidates for all rows exceeds that of an iteration saved in one row.
_CANDIDATES = (64, 32)


def chain_candidates(options: DraftOptions) -> tuple[int, int]:
    """Candidates of the chain at each mask: for one row, and for each of several rows."""
    return (_CANDIDATES[0],) * 2 if options.row_independent else _CANDIDATES


class ChainSearch:
    """Runs a ``ChainHead`` from the left over the best tokens of each mask, in fp32.

    The contribution of each token to the next state, and the vectors that turn a state into logit
    bonuses of tokens, are matrix products over the vocabulary; they are computed once, and their
    rows looked up.

    Args:
        decoder: a ``BlockDecoder`` with a chain.
        candidates: m, tokens of each mask to choose among: of a row alone, and of each of several.
    """

    def __init__(self, decoder: Any, candidates: tuple[int, int]) -> None:
        chain = decoder.chain
        dim = decoder.embed_dim
        of_past = chain.of_past.weight.detach().float()
        embeddings = decoder.embed_tokens.weight.detach().float()
        projection = decoder.output_projection.weight.detach()
        self.of_token = decoder.embed_scale * embeddings @ of_past[:, :dim].t()
        self.of_state = of_past[:, dim:].t().contiguous()
        self.of_mask = Linear(chain.of_mask.weight.float(), chain.of_mask.bias.float())
        product = projection.float() @ chain.out.weight.detach().float()
        # In 16 bits hundreds of rows are looked up with half the bytes.
        self.for_token = product.to(projection.dtype)
        self.candidates = candidates

    def __call__(
        self,
        features: Tensor,
        logits: Tensor,
        previous: Tensor,
        confidence: float = 0.0,
        costs: Sequence[float] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Choose the tokens of a block.

        Args:
            features: [B, K, C], the masks'.
            logits: [B, K, V], of the masks alone.
            previous: long [B], the token before the block.
            confidence: end a row before the first token whose probability among the candidates,
                times those of the tokens before it, is below this; 0 for never.
            costs: as in ``token_choice.kept_lengths``.

        Returns:
            (tokens long [B, K'], lengths long [B]). K' is K, or on a CPU less, where all rows
            have ended.
        """
        if features.is_cuda:
            return self.whole(features, logits, previous, confidence, costs)
        given = self._candidates(features, logits)
        chosen: list[Tensor] = []
        chances: list[Tensor] = []
        run = _Run(self, given, previous)
        judges = confidence > 0 or costs is not None
        for step in range(features.size(1)):
            total = run.totals(step)
            if judges:
                chance, best = torch.softmax(total, 1).max(1, keepdim=True)
                chances.append(chance)
            else:
                best = total.argmax(1, keepdim=True)
            chosen.append(run.take(step, best))
        tokens = torch.stack(chosen, 1)
        if not judges:
            return tokens, torch.full_like(previous, tokens.size(1))
        sizes = kept_lengths(torch.cat(chances, 1), confidence, costs)
        return tokens[:, : int(sizes.max())], sizes

    def _candidates(self, features: Tensor, logits: Tensor) -> _Candidates:
        count = self.candidates[0 if features.size(0) == 1 else 1]
        scores, tokens = logits.topk(min(count, logits.size(-1)), dim=-1)
        rows = nn.functional.embedding(tokens, self.for_token).float()
        return _Candidates(scores.float(), tokens, rows, self.of_mask(features.float()))

    def whole(
        self,
        features: Tensor,
        logits: Tensor,
        previous: Tensor,
        confidence: float,
        costs: Sequence[float] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """As a call, always with K tokens, in fewer kernels: what any candidate gives to the next
        state is looked up at once, and a chosen one is known by its rank until the end."""
        judges = confidence > 0 or costs is not None
        tokens, chances = self.judged(features, logits, previous, judges)
        if chances is None:
            return tokens, torch.full_like(previous, tokens.size(1))
        return tokens, kept_lengths(chances, confidence, costs)

    def judged(
        self, features: Tensor, logits: Tensor, previous: Tensor, judges: bool = True
    ) -> tuple[Tensor, Tensor | None]:
        """The tokens of a block, long [B, K], and where ``judges`` their probabilities among the
        candidates, float [B, K], each after the tokens before it."""
        scores, candidates, rows, of_mask = self._candidates(features, logits)
        known = of_mask[:, 0] + nn.functional.embedding(previous, self.of_token)
        following = nn.functional.embedding(candidates[:, :-1], self.of_token)
        following += of_mask[:, 1:].unsqueeze(2)
        bonus = scores.unsqueeze(3)
        ranks: list[Tensor] = []
        chances: list[Tensor] = []
        for place in range(candidates.size(1)):
            state = torch.tanh(known)
            total = torch.baddbmm(bonus[:, place], rows[:, place], state.unsqueeze(2)).squeeze(2)
            if judges:
                chance, rank = torch.softmax(total, 1).max(1, keepdim=True)
                chances.append(chance)
            else:
                rank = total.argmax(1, keepdim=True)
            ranks.append(rank)
            if place + 1 < candidates.size(1):
                at = rank.unsqueeze(2).expand(-1, 1, state.size(1))
                chosen = following[:, place].gather(1, at).squeeze(1)
                known = torch.addmm(chosen, state, self.of_state)
        tokens = candidates.gather(2, torch.stack(ranks, 1)).squeeze(2)
        return tokens, torch.cat(chances, 1) if judges else None


class _Candidates(NamedTuple):
    """What a block may become."""

    scores: Tensor  # float [B, K, m], logits of the masks alone
    tokens: Tensor  # long [B, K, m]
    rows: Tensor  # float [B, K, m, H], what turns a state into their logit bonuses
    of_mask: Tensor  # float [B, K, H], what a mask gives to the state


class _Run:
    """One block, from the left. With few numbers the call of an operation costs most: as few
    operations as possible."""

    def __init__(self, search: ChainSearch, given: _Candidates, previous: Tensor) -> None:
        self.search = search
        self.masks = given.of_mask.unbind(1)
        self.scores = given.scores.unsqueeze(3).unbind(1)
        self.rows = given.rows.unbind(1)
        self.choices = given.tokens.unbind(1)
        self.state: Tensor | None = None  # zero
        self.token = previous

    def totals(self, step: int) -> Tensor:
        """[B, m], logits of the candidates of the next mask."""
        search = self.search
        known = self.masks[step] + nn.functional.embedding(self.token, search.of_token)
        if self.state is not None:
            known = torch.addmm(known, self.state, search.of_state)
        self.state = torch.tanh(known)
        total = torch.baddbmm(self.scores[step], self.rows[step], self.state.unsqueeze(2))
        return total.squeeze(2)

    def take(self, step: int, best: Tensor) -> Tensor:
        """Go on with a candidate of each row, long [B, 1]; its token, long [B]."""
        self.token = self.choices[step].gather(1, best).squeeze(1)
        return self.token
