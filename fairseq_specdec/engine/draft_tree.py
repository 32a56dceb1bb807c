"""What a drafter proposes."""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch
from torch import Tensor


class DraftTree(NamedTuple):
    """Draft tokens of a batch. A chain is the tree in which every token follows the one before it.

    Attributes:
        tokens: long [B, N]; entries from a row's size on are ignored. N may be 0.
        sizes: long [B], draft tokens of each row; 0 makes the iteration an ordinary autoregressive
            step for that row.
        log_probs: float [B, N, V], the distributions that the tokens were drawn from, or None.
        passes: passes of a small model that drafts token by token; 0 for other drafters.
        parents: long [B, N], for a tree the entry that each token follows, which precedes it; -1 is
            the last accepted token. None for a chain, whose parents are -1, 0, 1, ...
        forced: no drafter made it: constraints leave no other tokens.
    """

    tokens: Tensor
    sizes: Tensor
    log_probs: Optional[Tensor] = None
    passes: int = 0
    parents: Optional[Tensor] = None
    forced: bool = False

    @property
    def is_chain(self) -> bool:
        """Known on the host: a chain needs no ancestor mask."""
        return self.parents is None

    @property
    def width(self) -> int:
        """N."""
        return self.tokens.size(1)

    @classmethod
    def empty(cls, lengths: Tensor) -> DraftTree:
        """No draft for any row (``lengths``: long [B])."""
        return cls(lengths.new_empty(lengths.size(0), 0), torch.zeros_like(lengths))

    def limited(self, most: int, room: Optional[Tensor] = None) -> DraftTree:
        """The first ``most`` entries of every row, and at most ``room`` (long [B]) of each.

        Parents precede their children, so what is left is a tree.
        """
        sizes = self.sizes if room is None else torch.minimum(self.sizes, room)
        if self.width <= most:
            return self._replace(sizes=sizes)
        return self._replace(
            tokens=self.tokens[:, :most],
            sizes=sizes.clamp(max=most),
            log_probs=None if self.log_probs is None else self.log_probs[:, :most],
            parents=None if self.parents is None else self.parents[:, :most],
        )
