"""How many masks a block drafter may have in an iteration."""

import dataclasses

from fairseq_specdec.engine.hypotheses import Hypotheses


@dataclasses.dataclass
class MaskLimits:
    """What bounds the masks of one batch."""

    block_size: int  # k
    max_len: int  # most target tokens before </s>
    first: int  # position of the first token
    positions: int | None  # how many a learned table holds; None where there is no limit
    whole_blocks: bool  # the drafter knows blocks of k masks only
    reads: bool  # the drafter reads hidden states
    row_independent: bool = False  # the length limit takes no mask, as rows reach it apart
    _missed: bool = dataclasses.field(default=False, init=False)  # hidden states went by unread

    def of_iteration(self, hypotheses: Hypotheses, budget: int | None = None) -> int:
        """K, the masks of this iteration (arguments as for ``masks``). Once there was no room, a
        drafter that reads hidden states has missed some, and drafts no more."""
        if budget == 0:
            return 0
        masks = self.masks(hypotheses, budget)
        self._missed = self._missed or (masks == 0 and self.reads)
        return 0 if self._missed else masks

    def masks(self, hypotheses: Hypotheses, budget: int | None) -> int:
        """K, as many as there is room for, as in block_drafter.cpp. ``hypotheses``: what was
        accepted. ``budget``: draft tokens of a row that the loop can use; None for any number."""
        room = self.max_len - hypotheses.shortest
        if self.row_independent and room > 0:
            room = self.block_size
        if self.positions is not None:
            room = min(room, self.positions - hypotheses.longest - self.first)
        masks = max(0, min(self.block_size, room))
        if budget is not None:
            masks = min(masks, budget)
        return self.block_size if masks > 0 and self.whole_blocks else masks
