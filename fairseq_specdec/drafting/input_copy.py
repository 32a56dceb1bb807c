"""Input-guided Aggressive Decoding: the source sentence is the draft."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from itertools import accumulate

from torch import Tensor

from fairseq_specdec.engine.native.structures import Drafting, SourceCopy
from fairseq_specdec.engine.state import Rows

from .base import Budget, Costs, Drafter, DraftSession, Source
from .edit_table import EditTable
from .on_host import MAX_SUFFIX, HostSession, sources_of

MOST_DELETED = 3
"""Source tokens that the output may have skipped for ``realigned_place`` to see it."""


def matched_suffixes(source: Sequence[int], suffix: Sequence[int]) -> list[int]:
    """How many tokens up to each source column equal the last ones of ``suffix``: the prefix
    lengths of the reversed text (Z algorithm), in linear time."""
    text = [*reversed(suffix), -1, *reversed(source)]  # -1 equals no token
    sizes = [0] * len(text)
    left = right = 0  # text[left:right] equals its beginning, and ends furthest
    for i in range(1, len(text)):
        size = min(right - i, sizes[i - left]) if i < right else 0
        while i + size < len(text) and text[size] == text[i + size]:
            size += 1
        if i + size > right:
            left, right = i, i + size
        sizes[i] = size
    return sizes[: len(suffix) : -1]


def unique_place(
    source: Sequence[int], output: Sequence[int], max_suffix: int | None = MAX_SUFFIX
) -> int | None:
    """The column of the source where the output continues (Ge et al. 2022, section 3.1 and
    Algorithm 1).

    The output continues after the one place of the source where a suffix of the output occurs, if
    there is a suffix that occurs exactly once. The start symbol counts as a token of both, so that
    an empty output continues with the whole source (the remark under Algorithm 1).

    The paper puts no limit on the suffix (q >= 0). A limit finds fewer places and no other ones: a
    longer suffix occurs at some of the places of a shorter one.

    Args:
        source: the start symbol, the sentence and its </s>.
        output: the start symbol and the accepted tokens.
        max_suffix: longest suffix matched, q + 1 tokens, 1 or more; None for no limit.

    Returns:
        None where no suffix of the output occurs exactly once.
    """
    suffix = output if max_suffix is None else output[-max_suffix:]
    # A match must leave something to copy, so it ends before the final </s>.
    matched = matched_suffixes(source, suffix)[:-1]
    longest = max(matched)
    # Only the place that matches longest can be the only one of a suffix.
    return matched.index(longest) + 1 if longest > 0 and matched.count(longest) == 1 else None


def realigned_place(source: Sequence[int], expected: int, token: int) -> int:
    """The column of the source where the output likely continues after a token that was not
    expected.

    If the source has the token within ``MOST_DELETED`` columns after the expected one, the tokens
    between were deleted; else the token replaced the expected one.

    Args:
        expected: column of the source token that the output did not copy, or any column after it.
        token: the output's token in its place.
    """
    for at in range(expected, min(expected + MOST_DELETED + 1, len(source) - 1)):
        if source[at] == token:
            return at + 1
    return expected + 1


class InputCopyDrafter(Drafter):
    """Drafts the rest of the source after the place that the output has reached: Input-guided
    Aggressive Decoding (Ge et al. 2022, section 3.1).

    Source and target must share one dictionary (checked by the builder).

    Where no suffix of the output occurs exactly once in the source, the paper decodes a token
    without a draft. With ``realign`` the draft continues at the likeliest place instead, searched
    from the end of what was copied.

    Args:
        start_symbol: the decoder's first input (</s> in fairseq).
        longest: longest draft, or None for the whole rest of the source as in the paper.
        realign: draft after every mismatch.
        max_suffix: longest suffix matched, in tokens; None for no limit, as in the paper.
        edits: what is likely to change in a source; the edited source is copied in its place.
    """

    for_beams = True
    runs_model = False
    in_library = True
    first_chance = 0.9

    def __init__(
        self,
        pad: int,
        start_symbol: int,
        longest: int | None = None,
        realign: bool = False,
        max_suffix: int | None = MAX_SUFFIX,
        edits: EditTable | None = None,
    ) -> None:
        self.pad = pad
        self.start_symbol = start_symbol
        self.block_size = longest
        self.realign = realign
        self.max_suffix = max_suffix
        self.edits = edits

    def open(self, source: Source) -> DraftSession:
        return InputCopySession(self, source.net_input["src_tokens"])


class InputCopySession(HostSession):
    """The sources of one batch, and where each row's last draft began. ``src_tokens``: long [B, S],
    padded on either side."""

    def __init__(self, settings: InputCopyDrafter, src_tokens: Tensor) -> None:
        super().__init__(settings.pad)
        self.settings = settings
        self.sources = sources_of(src_tokens, settings.start_symbol, settings.pad)
        if settings.edits is not None:
            self.sources = list(map(settings.edits.edited, self.sources))
        count = ctypes.c_int64 * len(self.sources)
        # Where the last draft began, and the tokens accepted until then.
        self.begin, self.seen = count(), count()

    def draft(self, row: int, output: Sequence[int]) -> list[int]:
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
        end = None if settings.block_size is None else begin + settings.block_size
        return source[begin:end]

    def native_form(self, rows: Rows, budget: Budget, costs: Costs) -> Drafting:
        copy, live = self._copy, rows.origin
        copy.rows, copy.kept_origin = len(live), (ctypes.c_int64 * len(live))(*live)
        copy.origin = ctypes.addressof(copy.kept_origin)
        limits = (self.settings.block_size, budget, max(len(self.sources[row]) for row in live))
        drafting = Drafting(block=min(limit for limit in limits if limit is not None))
        drafting.copy = ctypes.addressof(copy)
        return drafting

    @functools.cached_property
    def _copy(self) -> SourceCopy:
        """The sources for the library."""
        tokens = [token for source in self.sources for token in source]
        kept = (
            (ctypes.c_int64 * len(tokens))(*tokens),
            type(self.begin)(*accumulate(map(len, self.sources))),
            self.begin,
            self.seen,
        )
        tokens_at, ends, begin, seen = map(ctypes.addressof, kept)
        settings = self.settings
        copy = SourceCopy(
            0, None, tokens_at, ends, settings.max_suffix or 0, settings.realign, begin, seen
        )
        copy.kept = kept
        return copy

    def likely_copied(self, row: int) -> Sequence[int]:
        return self.sources[row][1:-1]  # without start symbol and </s>
