"""Drafts of tokens that are there already: the source (``iad``), or what followed the last tokens
where they occurred before (``lookup``).

A source has a few dozen tokens. The host searches it in some microseconds, which a dozen operators
of torch would take longer to be launched.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from fairseq_specdec.engine.native.structures import Drafting, SourceCopy
from fairseq_specdec.engine.state import Draft, Rows, to_device

from .base import Budget, Costs, Drafter, DraftSession, SilentSession, Source

MAX_SUFFIX = 3
"""Longest suffix that is matched unless asked otherwise, in tokens: that of the authors' code."""


class HostSession(DraftSession):
    """Drafts that the host finds row by row. ``sources``: of each row the start symbol, the
    sentence and its </s>, or nothing where the output copies none of it."""

    def __init__(self, sources: list[list[int]], pad: int) -> None:
        self.sources = sources
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

    def likely_copied(self, row: int) -> Sequence[int]:
        return self.sources[row][1:-1]  # without start symbol and </s>


def sources_of(src_tokens: Tensor, start_symbol: int, pad: int) -> list[list[int]]:
    """Each row as in ``HostSession``; ``src_tokens``: long [B, S], padded on either side."""
    rows = src_tokens.tolist()
    return [[start_symbol, *(token for token in row if token != pad)] for row in rows]


# ---- the source is the draft ---------------------------------------------------------------------


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
    Algorithm 1): after the one place where a suffix of the output occurs, if there is a suffix that
    occurs exactly once; else None.

    The start symbol counts as a token of both, so that an empty output continues with the whole
    source (the remark under Algorithm 1). The paper puts no limit on the suffix (q >= 0). A limit
    finds fewer places and no other ones: a longer suffix occurs at some of the places of a shorter
    one.

    Args:
        source: the start symbol, the sentence and its </s>.
        output: the start symbol and the accepted tokens.
        max_suffix: longest suffix matched, q + 1 tokens, 1 or more; None for no limit.
    """
    suffix = output if max_suffix is None else output[-max_suffix:]
    # A match must leave something to copy, so it ends before the final </s>.
    matched = matched_suffixes(source, suffix)[:-1]
    longest = max(matched, default=0)
    # Only the place that matches longest can be the only one of a suffix.
    return matched.index(longest) + 1 if longest > 0 and matched.count(longest) == 1 else None


@dataclass(eq=False)
class InputCopyDrafter(Drafter):
    """Drafts the rest of the source after the place that the output has reached: Input-guided
    Aggressive Decoding (Ge et al. 2022, section 3.1).

    Source and target must share one dictionary (checked by the builder). Where no suffix of the
    output occurs exactly once in the source, the paper decodes a token without a draft.
    """

    for_beams = True
    runs_model = False
    in_library = True
    first_chance = 0.9

    pad: int
    start_symbol: int  # the decoder's first input (</s> in fairseq)
    block_size: int | None = None  # longest draft; None for the rest of the source, as in the paper
    max_suffix: int | None = MAX_SUFFIX  # longest suffix matched; None for no limit, as the paper
    times: int = 0  # in the library: most tokens for each that matched; 0 for any

    def open(self, source: Source) -> DraftSession:
        return InputCopySession(self, source.net_input["src_tokens"])


class GivenTextDrafter(InputCopyDrafter):
    """Drafts the rest of a text that the output is expected to be like, in the same way: of the
    translation that an earlier version of the source had, say. Without one it drafts nothing."""

    first_chance = 0.7

    def open(self, source: Source) -> DraftSession:
        if source.draft_tokens is None:
            return SilentSession()
        return InputCopySession(self, source.draft_tokens)


class InputCopySession(HostSession):
    """The sources of one batch. ``src_tokens``: long [B, S], padded on either side."""

    def __init__(self, settings: InputCopyDrafter, src_tokens: Tensor) -> None:
        sources = sources_of(src_tokens, settings.start_symbol, settings.pad)
        super().__init__(sources, settings.pad)
        self.settings = settings

    def draft(self, row: int, output: Sequence[int]) -> list[int]:
        """The rest of a row's source after the place that its output has reached."""
        source, settings = self.sources[row], self.settings
        begin = unique_place(source, output, settings.max_suffix)
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
        ends = (ctypes.c_int64 * len(self.sources))(*accumulate(map(len, self.sources)))
        kept = (ctypes.c_int64 * len(tokens))(*tokens), ends
        copy = SourceCopy(0, None, *map(ctypes.addressof, kept), self.settings.max_suffix or 0,
                          self.settings.times)  # fmt: skip
        copy.kept = kept
        return copy


# ---- what followed the last tokens before --------------------------------------------------------


@dataclass(eq=False)
class LookupDrafter(Drafter):
    """Drafts what followed the longest suffix of the output that occurs in the source or in the
    output before: prompt lookup decoding (Saxena 2023), which takes the first place. The search of
    the output too is that of SuffixDecoding (Oliaro et al. 2024), for one output.
    """

    for_beams = True
    runs_model = False

    pad: int
    start_symbol: int
    block_size: int  # longest draft
    # source and target have one dictionary; else only the output is searched
    reads_source: bool = True
    max_suffix: int | None = MAX_SUFFIX  # longest suffix matched, in tokens; None for no limit

    def open(self, source: Source) -> DraftSession:
        sources = sources_of(source.net_input["src_tokens"], self.start_symbol, self.pad)
        return LookupSession(self, sources if self.reads_source else [[] for _ in sources])


class LookupSession(HostSession):
    """Searches the source of a sentence and its output so far, one text."""

    def __init__(self, settings: LookupDrafter, sources: list[list[int]]) -> None:
        super().__init__(sources, settings.pad)
        self.settings = settings
        # Tokens of each output at the last draft, and where it continues if that is copied on.
        self.known = [(0, 0)] * len(sources)

    def draft(self, row: int, output: Sequence[int]) -> list[int]:
        """What followed the longest suffix of the output where it occurred before; where it did so
        more than once, at the place that is nearest to the expected one."""
        source, settings, last = self.sources[row], self.settings, output[-1]
        text, taken, expected = [*source, *output], *self.known[row]
        expected += len(output) - taken
        limit = settings.max_suffix or len(text)

        def matched(place: int) -> int:
            """How many tokens up to a place equal the last ones."""
            size = 1
            while size < min(limit, place) and text[place - 1 - size] == text[-1 - size]:
                size += 1
            return size

        # A match must leave something to copy, so it ends before the final </s>.
        ends = (at for at, token in enumerate(text[:-1], 1) if token == last and at != len(source))
        keys = [(matched(at), -abs(at - expected), -at) for at in ends]
        place = -max(keys)[2] if keys else None
        self.known[row] = len(output), expected if place is None else place
        if place is None:
            return []
        if place < len(source):
            return source[place : place + settings.block_size]
        # Copied output that ends continues with its copy, as a text does that repeats itself.
        copied = text[place : place + settings.block_size]
        return (copied * (settings.block_size // len(copied) + 1))[: settings.block_size]
