"""Input-guided Aggressive Decoding: the source sentence is the draft."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from .base import Draft, Drafter

LONGEST_SUFFIX = 3
"""Suffixes of up to so many tokens are looked for; longer ones add nothing once three match."""

MOST_DELETED = 3
"""Source tokens that the output may have skipped for ``realigned`` to see it."""


def unique_continuation(
    source: Tensor, source_end: Tensor, output: Tensor, lengths: Tensor
) -> Tuple[Tensor, Tensor]:
    """Where in the source the output goes on: paper 000, section 3.1 and Algorithm 1.

    The shortest suffix of the output (up to ``LONGEST_SUFFIX`` tokens) that occurs exactly once
    in the source decides. The start symbol counts as a token of both, so that an empty output
    continues with the whole source (the remark under Algorithm 1).

    Args:
        source: long [B, S], column 0 the start symbol, then the sentence and its </s>.
        source_end: long [B], number of columns of each row up to and with the final </s>.
        output: long [B, T], column 0 the start symbol, then the accepted tokens.
        lengths: long [B], accepted tokens of each row.

    Returns:
        (found bool [B], begin long [B]): the draft of a row is source[b, begin[b]:source_end[b]].
    """
    rows, size = source.shape
    columns = torch.arange(size, device=source.device)
    # A match must leave something to copy, so it ends before the final </s>.
    match = (columns < (source_end - 1).unsqueeze(1)).expand(rows, size)
    found = torch.zeros(rows, dtype=torch.bool, device=source.device)
    begin = torch.zeros(rows, dtype=torch.long, device=source.device)
    for back in range(min(LONGEST_SUFFIX, output.size(1))):
        at = lengths - back
        token = output.gather(1, at.clamp(min=0).unsqueeze(1))
        # Column i ends a match when column i - back holds the token `back` places from the end.
        shifted = source.roll(back, 1) if back else source
        match = match & (shifted == token) & (columns >= back) & (at >= 0).unsqueeze(1)
        unique = (match.sum(1) == 1) & ~found
        begin = torch.where(unique, match.long().argmax(1) + 1, begin)
        found = found | unique
    return found, begin


def realigned(source: Tensor, source_end: Tensor, expected: Tensor, token: Tensor) -> Tensor:
    """Where in the source the output likely goes on behind a token that was not the expected one.

    If the token stands within ``MOST_DELETED`` places behind the expected one, what is between was
    deleted; else the token replaced the expected one.

    Args:
        source, source_end: as for ``unique_continuation``.
        expected: long [B], column of the source token that the output did not copy, or any column
            behind the sentence.
        token: long [B], the output's token in its place.

    Returns:
        long [B], a column; ``source_end`` and more where nothing is left.
    """
    skipped = torch.arange(MOST_DELETED + 1, device=source.device)
    at = expected.unsqueeze(1) + skipped
    there = source.gather(1, at.clamp(max=source.size(1) - 1))
    same = (there == token.unsqueeze(1)) & (at < (source_end - 1).unsqueeze(1))
    deleted = same.long().argmax(1)  # the first of them, 0 where there is none
    return expected + deleted + 1


class InputCopyDrafter(Drafter):
    """Drafts the rest of the source behind the place that the output has reached.

    Source and target must share one dictionary (checked by the builder).

    Where no suffix of the output occurs exactly once in the source, the paper decodes a token
    without a draft. With ``realign`` the draft goes on at the likeliest place instead, from where
    the last one was left.

    Args:
        pad: padding index.
        start_symbol: the token that stands in front of every output (</s> in fairseq).
        longest: longest draft, or None for the whole rest of the source as in the paper.
        realign: draft after every mismatch.
    """

    def __init__(
        self, pad: int, start_symbol: int, longest: Optional[int] = None, realign: bool = False
    ) -> None:
        self.pad = pad
        self.start_symbol = start_symbol
        self.longest = longest
        self.realign = realign

    def start(self, net_input: Dict[str, Any], max_len: int, encoder_out: Dict[str, Any]) -> None:
        src_tokens = net_input["src_tokens"]
        real = src_tokens.ne(self.pad)
        # Rows may be padded on either side: a stable sort brings the words to the front.
        order = (~real).long().sort(dim=1, stable=True).indices
        words = src_tokens.gather(1, order)
        first = words.new_full((words.size(0), 1), self.start_symbol)
        self.source = torch.cat([first, words], 1)
        self.source_end = real.sum(1) + 1
        # Where the last draft began, and the tokens accepted until then.
        self.begin = self.seen = torch.zeros_like(self.source_end)

    def propose(self, tokens: Tensor, lengths: Tensor, host_lengths: List[int]) -> Draft:
        reached = max(host_lengths) + 1
        found, begin = unique_continuation(
            self.source, self.source_end, tokens[:, :reached], lengths
        )
        if self.realign:
            # All that came since was copied, but for the verifier's own token at its end.
            expected = self.begin + (lengths - self.seen - 1).clamp(min=0)
            last = tokens.gather(1, lengths.unsqueeze(1)).squeeze(1)
            likely = realigned(self.source, self.source_end, expected, last)
            begin = torch.where(found, begin, likely)
            self.begin, self.seen = begin, lengths
            found = begin < self.source_end
        width = self.source.size(1) - 1
        if self.longest is not None:
            width = min(width, self.longest)
        left = (self.source_end - begin).clamp(max=width).masked_fill(~found, 0)
        if not left.is_cuda:  # there it would cost a synchronisation
            width = int(left.max())
        columns = torch.arange(width, device=tokens.device)
        at = (begin.unsqueeze(1) + columns).clamp(max=self.source.size(1) - 1)
        return Draft(self.source.gather(1, at), left)

    def prune(self, keep: Tensor, host_keep: List[int]) -> None:
        self.source = self.source.index_select(0, keep)
        self.source_end = self.source_end.index_select(0, keep)
        self.begin = self.begin.index_select(0, keep)
        self.seen = self.seen.index_select(0, keep)
