"""What a drafter proposes."""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch
from torch import Tensor


class Draft(NamedTuple):
    """Draft tokens of a batch: in each row every token follows the one before it.

    Attributes:
        tokens: long [B, N]; entries from a row's size on are ignored. N may be 0.
        sizes: long [B], draft tokens of each row; 0 makes the iteration an ordinary autoregressive
            step for that row.
        log_probs: float [B, N, V], the distributions that the tokens were drawn from, or None.
        passes: passes of a small model that drafts token by token; 0 for other drafters.
        forced: no drafter made it: constraints leave no other tokens.
        scores: float [B, N], the drafter's log-probabilities of its tokens, or None.
    """

    tokens: Tensor
    sizes: Tensor
    log_probs: Optional[Tensor] = None
    passes: int = 0
    forced: bool = False
    scores: Optional[Tensor] = None

    @property
    def width(self) -> int:
        """N."""
        return self.tokens.size(1)

    @classmethod
    def empty(cls, lengths: Tensor) -> Draft:
        """No draft for any row (``lengths``: long [B])."""
        return cls(lengths.new_empty(lengths.size(0), 0), torch.zeros_like(lengths))

    def limited(self, max_tokens: int, room: Optional[Tensor] = None) -> Draft:
        """The first ``max_tokens`` tokens of every row, and at most ``room`` (long [B]) of each."""
        sizes = self.sizes if room is None else torch.minimum(self.sizes, room)
        if self.width <= max_tokens:
            return self._replace(sizes=sizes)
        return self._replace(
            tokens=self.tokens[:, :max_tokens],
            sizes=sizes.clamp(max=max_tokens),
            log_probs=None if self.log_probs is None else self.log_probs[:, :max_tokens],
            scores=None if self.scores is None else self.scores[:, :max_tokens],
        )
