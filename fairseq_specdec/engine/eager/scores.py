"""Scores from a matrix of logits."""

from __future__ import annotations

import math
from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..ngrams import ban
from ..scores import Edits, Scores

MINUS_INFINITY = float("-inf")


class LogitScores(Scores):
    """Scores over logits in memory. Tokens are ranked by them; log-probabilities are
    computed for the entries that are asked for.

    Args:
        logits: [B, W, V].
        normalised: they are log-probabilities already.
    """

    def __init__(self, logits: Tensor, normalised: bool = False) -> None:
        self.logits = logits.float()
        self.normalised = normalised
        self.edits = Edits()
        # With the constraints, which do not renormalise, as in stock fairseq, so both are needed.
        self.edited = self.logits
        self._best: Optional[Tensor] = None
        self._log_probs: Optional[Tensor] = None

    @classmethod
    def of_ensemble(cls, logits: List[Tensor]) -> LogitScores:
        """The mean of the models' distributions (each float [B, W, V])."""
        if len(logits) == 1:
            if not logits[0].is_cuda:
                return cls(logits[0])
            # What few entries save is less than the kernels that it takes to find them.
            return cls(F.log_softmax(logits[0], dim=-1, dtype=torch.float32), normalised=True)
        each = [F.log_softmax(one, dim=-1, dtype=torch.float32) for one in logits]
        mean = torch.logsumexp(torch.stack(each), dim=0) - math.log(len(each))
        return cls(mean, normalised=True)

    def edit(self, edits: Edits) -> None:
        self.edits = edits
        self.edited = self._constrained(self.logits)

    def _constrained(self, scores: Tensor) -> Tensor:
        """Logits or log-probabilities [B, W, V] with all constraints but ``forced``: a copy, unless
        they are a GPU's log-probabilities."""
        edits = self.edits
        edited = scores if self.normalised and scores.is_cuda else scores.clone()
        for token, delta in edits.everywhere:
            edited[..., token].add_(delta)
        if edits.banned is not None:
            edited[..., edits.token].masked_fill_(edits.banned, MINUS_INFINITY)
        if edits.listed is not None:
            ban(edited, edits.listed)
        return edited

    def best(self) -> Tensor:
        if self._best is None:
            # topk(2), not argmax: ties go where stock's topk(2 * beam) sends them.
            self._best = self.edited.topk(2, dim=-1).indices[..., 0]
            if self.edits.forced is not None:
                self._best = torch.where(self.edits.forced >= 0, self.edits.forced, self._best)
        return self._best

    def of(self, tokens: Tensor) -> Tensor:
        width = tokens.size(1)
        if self.normalised:
            found = self.edited[:, :width].gather(2, tokens.unsqueeze(2)).squeeze(2)
            return self._only_forced(found, tokens)
        found = self._normalised(width).gather(2, tokens.unsqueeze(2)).squeeze(2)
        edits = self.edits
        for token, delta in edits.everywhere:
            found = torch.where(tokens == token, found + delta, found)
        if edits.banned is not None:
            banned = edits.banned[:, :width] & (tokens == edits.token)
            found = found.masked_fill(banned, MINUS_INFINITY)
        if edits.listed is not None:
            banned = (edits.listed[:, :width] == tokens.unsqueeze(2)).any(2)
            found = found.masked_fill(banned, MINUS_INFINITY)
        return self._only_forced(found, tokens)

    def gap(self, tokens: Tensor) -> Tensor:
        edited = self.edited[:, : tokens.size(1)]
        best = self.best()[:, : tokens.size(1)]
        top = edited.gather(2, best.unsqueeze(2)).squeeze(2)
        own = edited.gather(2, tokens.unsqueeze(2)).squeeze(2)
        return top - self._only_forced(own, tokens)

    def among_best(self, tokens: Tensor, count: int, asked: Tensor) -> Tensor:
        logits = self.edited[:, : tokens.size(1)]
        own = logits.gather(2, tokens.unsqueeze(2))
        if self.edits.forced is not None:
            asked = asked & (self._only_forced(own.squeeze(2), tokens) > MINUS_INFINITY)
        if logits.is_cuda:  # picking entries would wait for the device
            return asked & ((logits > own).sum(2) < count)
        ranked = asked.clone()
        ranked[asked] = (logits[asked] > own[asked]).sum(1) < count
        return ranked

    def topk(self, count: int) -> Tuple[Tensor, Tensor]:
        values, tokens = self.dense().topk(min(count, self.logits.size(-1)), dim=-1)
        return values, tokens

    def dense(self) -> Tensor:
        if self.normalised:
            found = self.edited
        else:
            found = self._constrained(self._normalised(self.logits.size(1)))
        forced = self.edits.forced
        if forced is None:
            return found
        token = forced.clamp(min=0).unsqueeze(2)
        kept = torch.full_like(found, MINUS_INFINITY).scatter_(2, token, found.gather(2, token))
        return torch.where((forced >= 0).unsqueeze(2), kept, found)

    def _only_forced(self, scores: Tensor, tokens: Tensor) -> Tensor:
        """Scores [B, N] of tokens (long [B, N]), -inf where another token is forced."""
        if self.edits.forced is None:
            return scores
        forced = self.edits.forced[:, : tokens.size(1)]
        return scores.masked_fill((forced >= 0) & (forced != tokens), MINUS_INFINITY)

    def _normalised(self, width: int) -> Tensor:
        """[B, width, V], log-probabilities of the first entries, without constraints."""
        if self.normalised:
            return self.logits[:, :width]
        known = self._log_probs
        if known is None or known.size(1) < width:
            known = self._log_probs = F.log_softmax(self.logits[:, :width], dim=-1)
        return known[:, :width]
