"""The verifier's distributions of the next tokens, computed on demand."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

MINUS_INFINITY = float("-inf")


def forbidden_by_ngrams(sequence: Tensor, last: Tensor, size: int) -> Tensor:
    """Tokens that would repeat an n-gram: ``--no-repeat-ngram-size``.

    Args:
        sequence: long [B, T], start symbol, accepted tokens and draft.
        last: long [B, W], column of the token that position w follows.
        size: n, 1 or more.

    Returns:
        long [B, W, T], forbidden token ids; entries that forbid nothing are -1.
    """
    rows, length = sequence.shape
    starts = torch.arange(length, device=sequence.device)
    # An n-gram that starts at column i ends, with the token it forbids, at column i + n - 1. Before
    # column n - 1 there is none, so that a context cut off at column 0 forbids nothing.
    end = starts + size - 1
    repeats = end <= last.unsqueeze(-1)
    for offset in range(size - 1):
        context = sequence.gather(1, (last - (size - 2) + offset).clamp(min=0))
        shifted = sequence[:, (starts + offset).clamp(max=length - 1)]
        repeats = repeats & (shifted.unsqueeze(1) == context.unsqueeze(2))
    banned = sequence[:, end.clamp(max=length - 1)].unsqueeze(1).expand(rows, last.size(1), length)
    return torch.where(repeats, banned, torch.full_like(banned, -1))


def ban(scores: Tensor, listed: Tensor) -> None:
    """Make listed tokens impossible, in place. ``scores``: float [B, W, V], logits or
    log-probabilities. ``listed``: long [B, W, n], token ids; -1 for none."""
    # Entries that ban nothing are sent to token 0; if an entry bans token 0 itself, all do.
    nothing = scores[..., :1].clone()
    nothing.masked_fill_((listed == 0).any(2, keepdim=True), float("-inf"))
    values = nothing.expand(listed.shape).masked_fill(listed >= 0, float("-inf"))
    scores.scatter_(2, listed.clamp(min=0), values)


class Edits(NamedTuple):
    """Decoding constraints, as changes of single log-probabilities.

    Attributes:
        everywhere: (token, what is added to its log-probability) at every entry.
        token: the token that ``banned`` bans, </s>.
        banned: bool [B, W], where ``token`` is impossible; or None.
        listed: long [B, W, n], tokens that are impossible, -1 for none; or None.
        forced: long [B, W], the only possible token, -1 where any is; or None.
    """

    everywhere: tuple[tuple[int, float], ...] = ()
    token: int = 0
    banned: Tensor | None = None
    listed: Tensor | None = None
    forced: Tensor | None = None

    def allow(self, tokens: Tensor) -> Tensor:
        """Bool [B, N], whether tokens (long [B, N]) are possible at the first N entries."""
        width = tokens.size(1)
        possible = torch.ones_like(tokens, dtype=torch.bool)
        if self.banned is not None:
            possible &= ~(self.banned[:, :width] & (tokens == self.token))
        if self.listed is not None:
            possible &= ~(self.listed[:, :width] == tokens.unsqueeze(2)).any(2)
        if self.forced is not None:
            forced = self.forced[:, :width]
            possible &= (forced < 0) | (forced == tokens)
        return possible


class Scores:
    """The log-probabilities of the tokens that follow each of a block's W tokens, for B rows.

    Constraints do not renormalise, as in stock fairseq. Where every token is banned,
    log-probabilities are -inf; where the model computed NaN, they are NaN.

    Attributes:
        log_probs: float32 [B, W, V].

    Args:
        logits: [B, W, V].
        normalised: they are log-probabilities already, in float32, which ``edit`` may change.
    """

    def __init__(self, logits: Tensor, normalised: bool = False) -> None:
        if not normalised:
            logits = F.log_softmax(logits, dim=-1, dtype=torch.float32)
        self.log_probs = logits
        self.forced: Tensor | None = None
        self._best: Tensor | None = None
        self._highest: Tensor | None = None  # the log-probabilities of ``_best``, where known

    @classmethod
    def of_ensemble(cls, logits: list[Tensor]) -> Scores:
        """The mean of the models' distributions (each float [B, W, V])."""
        if len(logits) == 1:
            return cls(logits[0])
        each = [F.log_softmax(one, dim=-1, dtype=torch.float32) for one in logits]
        mean = torch.logsumexp(torch.stack(each), dim=0) - math.log(len(each))
        return cls(mean, normalised=True)

    def edit(self, edits: Edits) -> None:
        """Apply decoding constraints, once, before anything is asked."""
        for token, delta in edits.everywhere:
            self.log_probs[..., token].add_(delta)
        if edits.banned is not None:
            self.log_probs[..., edits.token].masked_fill_(edits.banned, MINUS_INFINITY)
        if edits.listed is not None:
            ban(self.log_probs, edits.listed)
        self.forced = edits.forced
        if self.forced is not None:
            only = self.forced.clamp(min=0).unsqueeze(2)
            alone = torch.full_like(self.log_probs, MINUS_INFINITY)
            alone.scatter_(2, only, self.log_probs.gather(2, only))
            self.log_probs = torch.where(self.forced.unsqueeze(2) >= 0, alone, self.log_probs)

    def best(self) -> Tensor:
        """Long [B, W], the likeliest tokens; equal ones rank as in ``torch.topk``."""
        if self._best is None:
            # topk(2), not argmax: ties go where stock's topk(2 * beam) sends them.
            highest, best = self.log_probs.topk(2, dim=-1)
            self._highest, self._best = highest[..., 0], best[..., 0]
            if self.forced is not None:  # which may be banned
                self._highest = None
                self._best = torch.where(self.forced >= 0, self.forced, self._best)
        return self._best

    def of(self, tokens: Tensor) -> Tensor:
        """Float32 [B, N], the log-probabilities of tokens (long [B, N]) at the first N entries."""
        if tokens is self._best and self._highest is not None:
            return self._highest
        return self.log_probs[:, : tokens.size(1)].gather(2, tokens.unsqueeze(2)).squeeze(2)

    def gap(self, tokens: Tensor) -> Tensor:
        """Float32 [B, N], how far the log-probabilities of tokens (long [B, N]) at the first N
        entries are below the best ones; not finite for an impossible token."""
        return self.of(self.best()[:, : tokens.size(1)]) - self.of(tokens)

    def among_best(self, tokens: Tensor, count: int, asked: Tensor) -> Tensor:
        """Bool [B, N], where ``asked`` (bool [B, N]), ``tokens`` (long [B, N]) are possible, and
        fewer than ``count`` tokens are likelier at the first N entries."""
        own = self.of(tokens)
        if self.forced is not None:
            asked = asked & (own > MINUS_INFINITY)
        return asked & ((self.log_probs[:, : tokens.size(1)] > own.unsqueeze(2)).sum(2) < count)

    def topk(self, count: int) -> tuple[Tensor, Tensor]:
        """(log-probabilities float32 [B, W, k], tokens long [B, W, k]), in falling order."""
        values, tokens = self.log_probs.topk(min(count, self.log_probs.size(-1)), dim=-1)
        return values, tokens
