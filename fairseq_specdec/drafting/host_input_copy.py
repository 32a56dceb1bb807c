"""Input-guided Aggressive Decoding on the host: the source sentence is the draft, found row by row.

A source has a few dozen tokens. To find a suffix in it takes some microseconds in Python, and a
dozen operators of torch take fifty. The drafts are those of ``InputCopySession``.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import torch
from torch import Tensor

from fairseq_specdec.engine.draft_tree import DraftTree
from fairseq_specdec.engine.hypotheses import Hypotheses

from .base import DraftSession

MOST_DELETED = 3
"""Source tokens that the output may have skipped for ``realigned`` to see it."""


def unique_place(source: Sequence[int], output: Sequence[int], max_suffix: int) -> Optional[int]:
    """The column of the source where the output continues (Ge et al. 2022, section 3.1 and
    Algorithm 1), as ``unique_continuation`` finds it for a batch.

    Args:
        source: the start symbol, the sentence and its </s>.
        output: the start symbol and the accepted tokens.
        max_suffix: longest suffix matched, q + 1 tokens, 1 or more.

    Returns:
        None where no suffix of the output occurs exactly once.
    """
    longest = min(max_suffix, len(output))
    most = second = place = 0
    # A match must leave something to copy, so it ends before the final </s>.
    for end in range(len(source) - 1):
        size = 0
        while size < longest and size <= end and source[end - size] == output[-1 - size]:
            size += 1
        if size > most:
            most, second, place = size, most, end
        elif size > second:
            second = size
    return place + 1 if most > second else None


def realigned_place(source: Sequence[int], expected: int, token: int) -> int:
    """The column of the source where the output likely continues after a token that was not
    expected, as ``realigned`` finds it for a batch.

    Args:
        source: as for ``unique_place``.
        expected: column of the source token that the output did not copy, or any column after it.
        token: the output's token in its place.
    """
    for at in range(expected, min(expected + MOST_DELETED + 1, len(source) - 1)):
        if source[at] == token:
            return at + 1
    return expected + 1


class HostInputCopySession(DraftSession):
    """The sources of one batch, and where each row's last draft began.

    Args:
        settings: an ``InputCopyDrafter`` with a limit to its suffixes.
        src_tokens: long [B, S], padded on either side.
    """

    def __init__(self, settings: Any, src_tokens: Tensor) -> None:
        self.settings = settings
        self.sources = [
            [settings.start_symbol, *(token for token in row if token != settings.pad)]
            for row in src_tokens.tolist()
        ]
        # Where the last draft began, and the tokens accepted until then.
        self.begin = [0] * len(self.sources)
        self.seen = [0] * len(self.sources)

    def propose(self, hypotheses: Hypotheses, budget: Optional[int] = None) -> DraftTree:
        if budget == 0:
            return DraftTree.empty(hypotheses.lengths)
        outputs = hypotheses.tokens[:, : hypotheses.longest + 1].tolist()
        drafts = [
            self._draft(row, output[: length + 1])
            for row, (output, length) in enumerate(zip(outputs, hypotheses.lengths_cpu))
        ]
        sizes = list(map(len, drafts))
        width, pad = max(sizes), self.settings.pad
        padded = [draft + [pad] * (width - len(draft)) for draft in drafts]
        tokens = torch.tensor(padded, dtype=torch.long).view(len(drafts), width)
        return DraftTree(tokens, torch.tensor(sizes))

    def _draft(self, row: int, output: List[int]) -> List[int]:
        """The rest of a row's source after the place that its output has reached."""
        source, settings = self.sources[row], self.settings
        begin = unique_place(source, output, settings.max_suffix)
        if settings.realign:
            if begin is None:
                # All that came since was copied, but for the verifier's own token at its end.
                copied = max(len(output) - 2 - self.seen[row], 0)
                begin = realigned_place(source, self.begin[row] + copied, output[-1])
            self.begin[row], self.seen[row] = begin, len(output) - 1
        if begin is None:
            return []
        end = None if settings.longest is None else begin + settings.longest
        return source[begin:end]

    def likely_copied(self, row: int) -> Sequence[int]:
        return self.sources[row][1:-1]  # without start symbol and </s>

    def select(self, rows: Tensor, rows_cpu: List[int]) -> None:
        for name in ("sources", "begin", "seen"):
            values = getattr(self, name)
            setattr(self, name, [values[row] for row in rows_cpu])
