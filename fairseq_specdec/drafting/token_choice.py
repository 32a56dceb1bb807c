"""The tokens of a draft, from the logits of parallel masks (pure functions)."""

from collections.abc import Sequence

import torch
from torch import Tensor


def likeliest(logits: Tensor, judges: bool) -> tuple[Tensor, Tensor | None]:
    """The best token of each mask, long [B, K], of logits [B, K, V]; and where ``judges`` their
    probabilities, float [B, K]."""
    if not judges:
        return logits.argmax(-1), None
    return logits.argmax(-1), torch.softmax(logits, -1, dtype=torch.float32).amax(-1)


def shortened(
    tokens: Tensor,
    chances: Tensor | None,
    confidence: float,
    costs: Sequence[float] | None = None,
    whole: bool = False,
) -> tuple[Tensor, Tensor]:
    """How many tokens of each row's draft to keep.

    Args:
        tokens: long [B, K].
        chances: [B, K], of each token to be right if those before it are; None to keep all tokens.
        confidence: keep tokens that are right, with all before them, with at least this.
        costs: ``Plan.costs``: of those keep as many as are expected to be accepted most above the
            cost; None for all.
        whole: give all K tokens, as on a GPU, where to look up the lengths would wait for it.

    Returns:
        (tokens long [B, K'], lengths long [B]); K' is the largest length, unless ``whole``.
    """
    if chances is None:
        return tokens, tokens.new_full((tokens.size(0),), tokens.size(1))
    reached = chances.cumprod(1)
    sure = reached >= confidence
    if costs is None:
        counts = sure.sum(1)
    else:
        cost = reached.new_tensor(costs[1 : reached.size(1) + 1])
        gains = (reached.cumsum(1) - cost).masked_fill(~sure, float("-inf"))
        counts = torch.cat([torch.zeros_like(gains[:, :1]), gains], 1).argmax(1)
    if not whole and not tokens.is_cuda:
        tokens = tokens[:, : int(counts.max())]
    return tokens, counts
