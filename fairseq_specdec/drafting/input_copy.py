"""Input-guided Aggressive Decoding: the source sentence is the draft."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from fairseq_specdec.engine.draft_tree import DraftTree
from fairseq_specdec.engine.hypotheses import Hypotheses

from .base import Drafter, DraftSession, Source
from .host_input_copy import MOST_DELETED, HostInputCopySession

MAX_SUFFIX = 3
"""Longest suffix that is matched unless asked otherwise, in tokens: that of the authors' code."""

FIRST_COMPARED = 8
"""Tokens compared at first on a CPU where the limit is larger: comparing all at once costs the
product of both lengths. On a GPU that is less than to learn whether the first ones were enough."""


def matched_suffixes(source: Tensor, output: Tensor, lengths: Tensor, longest: int) -> Tensor:
    """How many tokens before and at each source column equal the last tokens of the output.

    Args:
        source, output, lengths: as for ``unique_continuation``.
        longest: most tokens compared, 1 or more.

    Returns:
        long [B, S], 0 .. longest.
    """
    back = torch.arange(longest, device=source.device)
    at = lengths.unsqueeze(1) - back
    # -1 and -2 equal no token and not each other: a match is within both sentences.
    suffix = output.gather(1, at.clamp(min=0)).masked_fill(at < 0, -2)
    windows = nn.functional.pad(source, (longest - 1, 0), value=-1).unfold(1, longest, 1).flip(2)
    differs = windows != suffix.unsqueeze(1)
    ends = nn.functional.pad(differs, (0, 1), value=True)
    return ends.to(torch.uint8).argmax(2)  # the first column that differs


def unique_continuation(
    source: Tensor,
    source_end: Tensor,
    output: Tensor,
    lengths: Tensor,
    max_suffix: Optional[int] = MAX_SUFFIX,
) -> Tuple[Tensor, Tensor]:
    """Where in the source the output continues (Ge et al. 2022, section 3.1 and Algorithm 1).

    The output continues after the one place of the source where a suffix of the output occurs, if
    there is a suffix that occurs exactly once. The start symbol counts as a token of both, so that
    an empty output continues with the whole source (the remark under Algorithm 1).

    The paper puts no limit on the suffix (q >= 0). A limit finds fewer places and no other ones: a
    longer suffix occurs at some of the places of a shorter one.

    Args:
        source: long [B, S], column 0 the start symbol, then the sentence and its </s>.
        source_end: long [B], number of columns of each row up to and with the final </s>.
        output: long [B, T], column 0 the start symbol, then the accepted tokens.
        lengths: long [B], accepted tokens of each row.
        max_suffix: longest suffix matched, q + 1 tokens, 1 or more; None for no limit.

    Returns:
        (found bool [B], begin long [B]): the draft of a row that was found is
        source[b, begin[b]:source_end[b]].
    """
    longest = output.size(1) if max_suffix is None else min(max_suffix, output.size(1))
    # A match must leave something to copy, so it ends before the final </s>.
    columns = torch.arange(source.size(1), device=source.device)
    ended = columns >= (source_end - 1).unsqueeze(1)
    size = longest if source.is_cuda else min(longest, FIRST_COMPARED)
    while True:
        matched = matched_suffixes(source, output, lengths, size).masked_fill(ended, 0)
        # Only the place that matches most can be the only one of a suffix.
        most, place = matched.topk(2)
        if size == longest or not bool((most[:, 1] == size).any()):
            return most[:, 0] > most[:, 1], place[:, 0] + 1
        size = min(2 * size, longest)


def realigned(source: Tensor, source_end: Tensor, expected: Tensor, token: Tensor) -> Tensor:
    """Where in the source the output likely continues after a token that was not expected.

    If the source has the token within ``MOST_DELETED`` columns after the expected one, the tokens
    between were deleted; else the token replaced the expected one.

    Args:
        source, source_end: as for ``unique_continuation``.
        expected: long [B], column of the source token that the output did not copy, or any column
            after the sentence.
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
    """Drafts the rest of the source after the place that the output has reached: Input-guided
    Aggressive Decoding (Ge et al. 2022, section 3.1).

    Source and target must share one dictionary (checked by the builder).

    Where no suffix of the output occurs exactly once in the source, the paper decodes a token
    without a draft. With ``realign`` the draft continues at the likeliest place instead, searched
    from the end of what was copied.

    Args:
        pad: padding index.
        start_symbol: the decoder's first input (</s> in fairseq).
        longest: longest draft, or None for the whole rest of the source as in the paper.
        realign: draft after every mismatch.
        max_suffix: longest suffix matched, in tokens; None for no limit, as in the paper.
    """

    for_beams = True
    runs_model = False

    def __init__(
        self,
        pad: int,
        start_symbol: int,
        longest: Optional[int] = None,
        realign: bool = False,
        max_suffix: Optional[int] = MAX_SUFFIX,
    ) -> None:
        self.pad = pad
        self.start_symbol = start_symbol
        self.longest = longest
        self.realign = realign
        self.max_suffix = max_suffix

    def open(self, source: Source) -> DraftSession:
        src_tokens = source.net_input["src_tokens"]
        # Without a limit a text of one word repeated would be compared with all of itself.
        here = src_tokens.device.type == "cpu" and not src_tokens.is_cuda
        if here and self.max_suffix is not None:
            return HostInputCopySession(self, src_tokens)
        return InputCopySession(self, src_tokens)


class InputCopySession(DraftSession):
    """The sources of one batch, and where each row's last draft began.

    Args:
        settings: of the drafter.
        src_tokens: long [B, S], padded on either side.
    """

    def __init__(self, settings: InputCopyDrafter, src_tokens: Tensor) -> None:
        self.settings = settings
        real = src_tokens.ne(settings.pad)
        # A stable sort brings the words to the front.
        order = (~real).long().sort(stable=True).indices
        words = src_tokens.gather(1, order)
        first = words.new_full((words.size(0), 1), settings.start_symbol)
        self.source = torch.cat([first, words], 1)
        self.source_end = real.sum(1) + 1
        # Where the last draft began, and the tokens accepted until then.
        self.begin = self.seen = torch.zeros_like(self.source_end)
        self._words: Optional[List[List[int]]] = None

    def propose(self, hypotheses: Hypotheses, budget: Optional[int] = None) -> DraftTree:
        if budget == 0:
            return DraftTree.empty(hypotheses.lengths)
        found, begin = self._continuation(hypotheses)
        width = self.source.size(1) - 1
        if self.settings.longest is not None:
            width = min(width, self.settings.longest)
        left = (self.source_end - begin).clamp(max=width).masked_fill(~found, 0)
        if not left.is_cuda:  # there it would cost a synchronisation
            width = int(left.max())
        columns = torch.arange(width, device=left.device)
        at = (begin.unsqueeze(1) + columns).clamp(max=self.source.size(1) - 1)
        return DraftTree(self.source.gather(1, at), left)

    def _continuation(self, hypotheses: Hypotheses) -> Tuple[Tensor, Tensor]:
        """(bool [B], whether there is a draft; long [B], the source column where it begins)."""
        tokens = hypotheses.tokens[:, : hypotheses.longest + 1]
        lengths = hypotheses.lengths
        found, begin = unique_continuation(
            self.source, self.source_end, tokens, lengths, self.settings.max_suffix
        )
        if not self.settings.realign:
            return found, begin
        # All that came since was copied, but for the verifier's own token at its end.
        expected = self.begin + (lengths - self.seen - 1).clamp(min=0)
        last = hypotheses.last().squeeze(1)
        likely = realigned(self.source, self.source_end, expected, last)
        begin = torch.where(found, begin, likely)
        self.begin, self.seen = begin, lengths
        return begin < self.source_end, begin

    def likely_copied(self, row: int) -> Sequence[int]:
        if self._words is None:  # read once for all rows: the host waits for a GPU
            ends, rows = self.source_end.unsqueeze(1), self.source
            self._words = [one[2 : one[0]] for one in torch.cat([ends, rows], 1).tolist()]
        return self._words[row]  # without start symbol and </s>

    def select(self, rows: Tensor, rows_cpu: List[int]) -> None:
        self._words = None
        self.source = self.source.index_select(0, rows)
        self.source_end = self.source_end.index_select(0, rows)
        self.begin = self.begin.index_select(0, rows)
        self.seen = self.seen.index_select(0, rows)
