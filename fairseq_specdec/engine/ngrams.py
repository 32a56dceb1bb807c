"""N-grams that must not be repeated (pure functions)."""

import torch
from torch import Tensor


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
