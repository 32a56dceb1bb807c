"""Drafts of tokens that are there already, which the host finds row by row.

A source has a few dozen tokens. The host searches it in some microseconds, which a dozen operators
of torch would take longer to be launched.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fairseq_specdec.engine.state import Draft, Rows, to_device

from .base import Budget, Costs, DraftSession

MAX_SUFFIX = 3
"""Longest suffix that is matched unless asked otherwise, in tokens: that of the authors' code."""


def sources_of(src_tokens: Tensor, start_symbol: int, pad: int) -> list[list[int]]:
    """The start symbol, the sentence and its </s> of each row (long [B, S], padded on either
    side)."""
    return [
        [start_symbol, *(token for token in row if token != pad)] for row in src_tokens.tolist()
    ]


class HostSession(DraftSession):
    """Drafts for one batch."""

    def __init__(self, pad: int) -> None:
        self.pad = pad

    def propose(self, rows: Rows, budget: Budget = None, costs: Costs = None) -> Draft:
        if budget == 0:
            return Draft.empty(rows.lengths)
        drafts = [self.draft(row, output) for row, output in zip(rows.origin, rows.outputs())]
        width = max(map(len, drafts))
        table = [[len(draft), *draft, *[self.pad] * (width - len(draft))] for draft in drafts]
        there = to_device(torch.tensor(table), rows.lengths.device)  # one copy
        return Draft(there[:, 1:], there[:, 0])

    def draft(self, row: int, output: Sequence[int]) -> list[int]:
        """The tokens to draft for a row. ``row``: its number in the batch that came in, which does
        not change as rows leave. ``output``: the start symbol and the accepted tokens."""
        raise NotImplementedError
