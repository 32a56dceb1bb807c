"""How many masks a block drafter may have in an iteration."""

from typing import NamedTuple

from fairseq_specdec.engine.state import Rows


class MaskLimits(NamedTuple):
    """What bounds the masks of one batch."""

    block_size: int  # k
    max_len: int  # most target tokens before </s>
    first: int  # position of the first token
    positions: int | None  # how many a learned table holds; None where there is no limit
    whole_blocks: bool  # the drafter knows blocks of k masks only
    row_independent: bool = False  # the length limit takes no mask, as rows reach it apart

    def masks(self, rows: Rows, budget: int | None) -> int:
        """K, as many as there is room for, as in block_drafter.cpp. ``budget``: draft tokens of a
        row that the loop can use; None for any number."""
        room = self.max_len - rows.shortest
        if self.row_independent and room > 0:
            room = self.block_size
        if self.positions is not None:
            room = min(room, self.positions - rows.longest - self.first)
        masks = max(0, min(self.block_size, room))
        if budget is not None:
            masks = min(masks, budget)
        return self.block_size if masks > 0 and self.whole_blocks else masks
