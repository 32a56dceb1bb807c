"""How many masks a block drafter may have in an iteration."""

from __future__ import annotations

from typing import NamedTuple, Optional

from fairseq_specdec.engine.hypotheses import Hypotheses


class MaskLimits(NamedTuple):
    """What bounds the masks of one batch.

    Attributes:
        block_size: k.
        max_len: most target tokens before </s>.
        first: position of the first token.
        positions: how many a learned table holds; None where there is no limit.
        whole_blocks: the drafter knows blocks of k masks only.
    """

    block_size: int
    max_len: int
    first: int
    positions: Optional[int]
    whole_blocks: bool

    def masks(self, hypotheses: Hypotheses, budget: Optional[int]) -> int:
        """K, the masks of this iteration.

        Args:
            hypotheses: what was accepted.
            budget: draft tokens of a row that the loop can use; None for any number.
        """
        room = self.max_len - hypotheses.shortest
        if self.positions is not None:
            room = min(room, self.positions - hypotheses.longest - self.first)
        masks = max(0, min(self.block_size, room))
        if budget is not None:
            masks = min(masks, budget)
        return self.block_size if masks > 0 and self.whole_blocks else masks
