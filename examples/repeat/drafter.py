"""Draft what followed the last tokens of the output when they occurred before."""

from __future__ import annotations

import torch
from torch import Tensor

from fairseq_specdec.drafting import Drafter, DraftSession, Source
from fairseq_specdec.engine.state import Draft, Rows


def last_occurrence(output: Tensor, lengths: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Where the last ``size`` tokens of each output occurred before, the latest place.

    Args:
        output: long [B, T], column 0 the start symbol, then the accepted tokens; T > ``size``.
        lengths: long [B], accepted tokens of each row.
        size: tokens to look for, 1 or more.

    Returns:
        (found bool [B], begin long [B]): the column after that occurrence, at most ``lengths``.
    """
    suffix_start = lengths + 1 - size
    columns = suffix_start.unsqueeze(1) + torch.arange(size, device=output.device)
    suffix = output.gather(1, columns.clamp(min=0))
    same = (output.unfold(1, size, 1) == suffix.unsqueeze(1)).all(2)
    starts = torch.arange(same.size(1), device=output.device)
    earlier = starts < suffix_start.unsqueeze(1)
    place = torch.where(same & earlier, starts, torch.full_like(starts, -1)).amax(1)
    return place >= 0, place + size


class RepeatDrafter(Drafter):
    """Drafts the tokens that followed the last occurrence of the output's last tokens.

    Args:
        block_size: k, most draft tokens of an iteration.
        match: tokens at the end of the output that must have occurred before.
    """

    def __init__(self, block_size: int, match: int) -> None:
        self.block_size = block_size
        self.match = match

    def open(self, source: Source) -> DraftSession:
        return RepeatSession(self)


class RepeatSession(DraftSession):
    """Drafts for one batch; all that it reads is in the rows.

    Args:
        settings: of the drafter.
    """

    def __init__(self, settings: RepeatDrafter) -> None:
        self.settings = settings

    def propose(self, rows: Rows, budget: int | None = None) -> Draft:
        size, width = self.settings.match, self.settings.block_size
        width = width if budget is None else min(width, budget)
        if width == 0 or rows.longest < size:
            return Draft.empty(rows.lengths)
        output, lengths = rows.tokens[:, : rows.longest + 1], rows.lengths
        found, begin = last_occurrence(output, lengths, size)
        sizes = (lengths + 1 - begin).clamp(max=width).masked_fill(~found, 0)
        at = begin.unsqueeze(1) + torch.arange(width, device=begin.device)
        return Draft(output.gather(1, at.clamp(max=output.size(1) - 1)), sizes)
