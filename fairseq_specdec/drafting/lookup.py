"""Draft what followed the last tokens of the output where they occurred before."""

import dataclasses
from collections.abc import Sequence

from .base import Drafter, DraftSession, Source
from .on_host import MAX_SUFFIX, HostSession, sources_of


class SearchedText:
    """The source of a sentence and its output so far, one text, with the columns after each token.
    ``source``: the start symbol, the sentence and its </s>; empty if the output copies none of
    it."""

    def __init__(self, source: Sequence[int]) -> None:
        self.tokens = list(source)
        self.output_start = len(source)
        self.taken = 0  # tokens of the output
        self.expected = 0  # where the output goes on if what it copied last goes on
        self._after: dict[int, list[int]] = {}
        # A match must leave something to copy, so it ends before the final </s>.
        for column, token in enumerate(source[:-1], start=1):
            self._after.setdefault(token, []).append(column)

    def extend(self, output: Sequence[int]) -> None:
        """Take in what was added to the output (the start symbol and the accepted tokens)."""
        added = output[self.taken :]
        for token in added:
            column = len(self.tokens)
            if column > self.output_start:
                self._after.setdefault(self.tokens[-1], []).append(column)
            self.tokens.append(token)
        self.taken = len(output)
        self.expected += len(added)

    def place(self, max_suffix: int | None) -> int | None:
        """The column after the longest suffix of the output that occurred before; where it did so
        more than once, the one nearest to the expected column."""
        columns = self._after.get(self.tokens[-1], ())
        limit = len(self.tokens) if max_suffix is None else max_suffix
        keys = [(self._matched(at, limit), -abs(at - self.expected), -at) for at in columns]
        return -max(keys)[2] if keys else None

    def _matched(self, column: int, limit: int) -> int:
        """How many tokens up to a column equal the last ones."""
        tokens, size = self.tokens, 1
        while size < min(limit, column) and tokens[column - 1 - size] == tokens[-1 - size]:
            size += 1
        return size

    def continuation(self, place: int, max_tokens: int) -> list[int]:
        """At most so many tokens from a column on. Copied output that ends goes on with its copy,
        as a text does that repeats itself."""
        self.expected = place
        if place < self.output_start:
            return self.tokens[place : min(place + max_tokens, self.output_start)]
        copied = self.tokens[place : place + max_tokens]
        return (copied * (max_tokens // len(copied) + 1))[:max_tokens]


@dataclasses.dataclass(eq=False)
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
        if self.reads_source:
            rows = sources_of(source.net_input["src_tokens"], self.start_symbol, self.pad)
        else:
            rows = [[] for _ in range(len(source.net_input["src_tokens"]))]
        return LookupSession(self, rows)


class LookupSession(HostSession):
    """The texts of one batch."""

    def __init__(self, settings: LookupDrafter, sources: list[list[int]]) -> None:
        super().__init__(settings.pad)
        self.settings = settings
        self.texts = [SearchedText(source) for source in sources]

    def draft(self, row: int, output: Sequence[int]) -> list[int]:
        text, settings = self.texts[row], self.settings
        text.extend(output)
        place = text.place(settings.max_suffix)
        return [] if place is None else text.continuation(place, settings.block_size)

    def likely_copied(self, row: int) -> Sequence[int]:
        text = self.texts[row]
        return text.tokens[: text.output_start][1:-1]  # without start symbol and </s>
