"""The tokens of a draft, from the logits of parallel masks (pure functions)."""

from collections.abc import Sequence

import torch
from torch import Tensor


def likeliest(
    logits: Tensor, confidence: float, whole: bool = False, costs: Sequence[float] | None = None
) -> tuple[Tensor, Tensor]:
    """The best token of each mask, and how many of a row the drafter is confident of.

    Args:
        logits: [B, K, V].
        confidence: least product of probabilities up to a token; 0 for all tokens.
        whole: give all K tokens, as on a GPU.
        costs: as in ``kept_lengths``.

    Returns:
        (tokens long [B, K'], lengths long [B]); on a processor K' is the largest length.
    """
    drafted = logits.argmax(-1)
    if confidence == 0 and costs is None:
        return drafted, drafted.new_full((drafted.size(0),), drafted.size(1))
    chances = torch.softmax(logits, -1, dtype=torch.float32).amax(-1)
    counts = kept_lengths(chances, confidence, costs)
    if not whole and not drafted.is_cuda:  # there it would cost a synchronisation
        drafted = drafted[:, : int(counts.max())]
    return drafted, counts


def kept_lengths(chances: Tensor, confidence: float, costs: Sequence[float] | None) -> Tensor:
    """How many tokens of each row's draft to keep, long [B].

    Args:
        chances: [B, K], of each token to be right if those before it are.
        confidence: keep tokens that are right, with all before them, with at least this.
        costs: ``Plan.costs``: of those keep as many as are expected to be accepted most above the
            cost; None for all.
    """
    reached = chances.cumprod(1)
    sure = reached >= confidence
    if costs is None:
        return sure.sum(1)
    cost = reached.new_tensor(costs[1 : reached.size(1) + 1])
    gains = (reached.cumsum(1) - cost).masked_fill(~sure, float("-inf"))
    gains = torch.cat([torch.zeros_like(gains[:, :1]), gains], 1)
    return gains.argmax(1)


def without_repeats(tokens: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Drop tokens that repeat the one before them: ``unrepeated`` tokens, and how many there are of
    each row."""
    order, counts = unrepeated(tokens, lengths)
    return tokens.gather(1, order), counts


def unrepeated(tokens: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Which tokens do not repeat the one before them.

    Masks decoded in parallel do not depend on one another's choice and often predict the same word
    twice. The verifier seldom does, so the words after the repetition are accepted more often one
    position earlier.

    Args:
        tokens: long [B, K].
        lengths: long [B], tokens of each row that count; None for all.

    Returns:
        (columns long [B, K], those of the kept tokens in front, kept tokens long [B]).
    """
    kept = torch.ones_like(tokens, dtype=torch.bool)
    kept[:, 1:] = tokens[:, 1:] != tokens[:, :-1]
    if lengths is not None:
        kept &= torch.arange(tokens.size(1), device=tokens.device) < lengths.unsqueeze(1)
    return (~kept).long().sort(dim=1, stable=True).indices, kept.sum(1)
