"""What stock ``SequenceGenerator`` does to the log-probabilities, for a block of positions."""

from __future__ import annotations

from typing import Optional

import torch
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
    # An n-gram that starts at column i ends, with the token it forbids, at column i + n - 1.
    end = starts + size - 1
    repeats = end <= last.unsqueeze(-1)
    for offset in range(size - 1):
        context = sequence.gather(1, (last - (size - 2) + offset).clamp(min=0))
        shifted = sequence[:, (starts + offset).clamp(max=length - 1)]
        repeats = repeats & (shifted.unsqueeze(1) == context.unsqueeze(2))
    repeats = repeats & (last - (size - 2) >= 0).unsqueeze(-1)
    banned = sequence[:, end.clamp(max=length - 1)].unsqueeze(1).expand(rows, last.size(1), length)
    return torch.where(repeats, banned, torch.full_like(banned, -1))


def ban_repeated_ngrams(log_probs: Tensor, sequence: Tensor, last: Tensor, size: int) -> None:
    """Make tokens impossible that would repeat an n-gram, in place (arguments as above).

    Args:
        log_probs: float [B, W, V].
        sequence, last, size: as for ``forbidden_by_ngrams``.
    """
    banned = forbidden_by_ngrams(sequence, last, size)
    log_probs.scatter_(2, banned.clamp(min=0), _where_banned(log_probs, banned))


def _where_banned(log_probs: Tensor, banned: Tensor) -> Tensor:
    """What to write for each entry of ``banned``: -inf, or what token 0 has already.

    Entries that ban nothing are sent to token 0; if an entry bans token 0 itself, all say so.
    """
    nothing = log_probs[..., :1].clone()
    nothing.masked_fill_((banned == 0).any(2, keepdim=True), MINUS_INFINITY)
    filler = nothing.expand(banned.shape)
    return filler.masked_fill(banned >= 0, MINUS_INFINITY)


class LogitsPolicy:
    """Applies, in stock's order: pad, unknown-word penalty, length limit, prefix tokens or
    minimum length, n-gram blocking. (Temperature comes earlier, in ``Verifier.score``.) What is
    no number stays none: stock calls such tokens impossible, here the generator stops.

    Args:
        pad, unk, eos: indices of the special symbols.
        min_len: ``--min-len``.
        unk_penalty: ``--unkpen``.
        no_repeat_ngram_size: ``--no-repeat-ngram-size``, 0 for none.
    """

    def __init__(
        self,
        pad: int,
        unk: int,
        eos: int,
        min_len: int,
        unk_penalty: float,
        no_repeat_ngram_size: int,
    ) -> None:
        self.pad, self.unk, self.eos = pad, unk, eos
        self.min_len = min_len
        self.unk_penalty = unk_penalty
        self.no_repeat_ngram_size = no_repeat_ngram_size

    def apply(
        self,
        log_probs: Tensor,
        lengths: Tensor,
        shortest: int,
        longest: int,
        max_len: int,
        prefix: Optional[Tensor],
        sequence: Tensor,
    ) -> Tensor:
        """Constrain the log-probabilities of a block, in place.

        Args:
            log_probs: float32 [B, W, V].
            lengths: long [B], accepted tokens of each row; position w decides token number
                lengths[b] + w, which stock calls the step.
            shortest: smallest of ``lengths``.
            longest: largest of ``lengths``.
            max_len: the step at which only </s> may follow.
            prefix: long [B, P] forced tokens (``--prefix-size``), padded on the right; or None.
            sequence: long [B, T], start symbol, accepted tokens, then the block's draft, for
                n-gram blocking.

        Returns:
            ``log_probs``.
        """
        width = log_probs.size(1)
        log_probs[..., self.pad] = MINUS_INFINITY
        if self.unk_penalty != 0:
            log_probs[..., self.unk] -= self.unk_penalty
        steps = lengths.unsqueeze(1) + torch.arange(width, device=lengths.device)
        if longest + width > max_len:
            over = (steps >= max_len).unsqueeze(-1)
            end = log_probs[..., self.eos].clone()
            log_probs.masked_fill_(over, MINUS_INFINITY)
            log_probs[..., self.eos] = end
        free = None
        if prefix is not None and shortest < prefix.size(1):
            free = self._force(log_probs, steps, max_len, prefix)
        if shortest < self.min_len:
            early = steps < self.min_len
            if free is not None:
                early = early & free
            log_probs[..., self.eos].masked_fill_(early, MINUS_INFINITY)
        if self.no_repeat_ngram_size > 0:
            ban_repeated_ngrams(log_probs, sequence, steps, self.no_repeat_ngram_size)
        return log_probs

    def _force(self, log_probs: Tensor, steps: Tensor, max_len: int, prefix: Tensor) -> Tensor:
        """Leave only the prefix token where there is one; say where no prefix column reaches."""
        inside = (steps < prefix.size(1)) & (steps < max_len)
        token = prefix.gather(1, steps.clamp(max=prefix.size(1) - 1))
        forced = inside & token.ne(self.pad)
        own = log_probs.gather(2, token.unsqueeze(2))
        kept = torch.full_like(log_probs, MINUS_INFINITY).scatter_(2, token.unsqueeze(2), own)
        log_probs.copy_(torch.where(forced.unsqueeze(2), kept, log_probs))
        return ~inside
