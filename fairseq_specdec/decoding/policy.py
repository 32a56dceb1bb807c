"""The constraints that stock ``SequenceGenerator`` applies, for a block of positions."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_specdec.engine.scores import MINUS_INFINITY, Edits, forbidden_by_ngrams
from fairseq_specdec.engine.state import Draft, Rows


class LengthLimits(NamedTuple):
    """Most tokens before </s>: there only </s> may follow.

    Attributes:
        shortest: of a row, or less.
        longest: of a row, or more.
        rows: long [B], of each row; None where all have ``longest``.
    """

    shortest: int
    longest: int
    rows: Tensor | None = None

    @classmethod
    def same(cls, limit: int) -> LengthLimits:
        """One limit for all rows."""
        return cls(limit, limit)

    @property
    def of_rows(self) -> int | Tensor:
        """To compare with a number of each row."""
        return self.longest if self.rows is None else self.rows

    @property
    def of_entries(self) -> int | Tensor:
        """To compare with numbers of several entries of each row."""
        return self.longest if self.rows is None else self.rows.unsqueeze(1)

    def listed(self, count: int) -> list[int]:
        """As Python ints, of so many rows; a synchronisation where they differ."""
        return [self.longest] * count if self.rows is None else self.rows.tolist()

    def select(self, rows: Tensor) -> LengthLimits:
        """Those of these rows."""
        if self.rows is None:
            return self
        return self._replace(rows=self.rows.index_select(0, rows))


class DecodingConstraints(NamedTuple):
    """Decoding constraints, in stock's order: pad, unknown-word penalty, length limit, prefix
    tokens or minimum length, n-gram blocking. (The verifier applies the temperature.) NaN stays
    NaN: stock treats such tokens as impossible, here the generator stops."""

    pad: int
    unk: int
    eos: int
    min_len: int
    unk_penalty: float
    no_repeat_ngram_size: int

    @property
    def reads_hypotheses(self) -> bool:
        """Whether a constraint depends on the tokens before."""
        return self.no_repeat_ngram_size > 0

    def edits(self, rows: Rows, width: int, limits: LengthLimits, prefix: Tensor | None) -> Edits:
        """What to change for a block of ``width`` entries.

        Entry w decides token number lengths[b] + w, which stock calls the step.

        Args:
            rows: what was accepted, and, for n-gram blocking, the draft in the columns after it.
            width: W, the last accepted token and the draft.
            limits: the step at which only </s> may follow.
            prefix: long [B, P] forced tokens (``--prefix-size``), padded on the right; or None.
        """
        reach = (rows.shortest, rows.longest + width - 1)
        if not self.reads_hypotheses and not self._matters(reach, limits, prefix):
            return Edits(self._everywhere(), self.eos)
        lengths = rows.lengths
        steps = lengths.unsqueeze(1) + torch.arange(width, device=lengths.device)
        listed = None
        if self.reads_hypotheses:
            listed = forbidden_by_ngrams(rows.tokens, steps, self.no_repeat_ngram_size)
        return self.edits_at(steps, reach, limits, prefix, listed)

    def edits_at(
        self,
        steps: Tensor,
        reach: tuple[int, int],
        limits: LengthLimits,
        prefix: Tensor | None,
        listed: Tensor | None = None,
    ) -> Edits:
        """What to change for entries anywhere in the output.

        Args:
            steps: long [B, W], the token that each entry decides is this one of the output.
            reach: the smallest and the largest of them, or numbers beyond these.
            limits, prefix: as for ``edits``.
            listed: long [B, W, n], tokens forbidden by n-grams, as in ``Edits``; or None.
        """
        first, last = reach
        forced = None
        if last >= limits.shortest:
            at_limit = steps >= limits.of_entries
            forced = torch.full_like(steps, -1).masked_fill_(at_limit, self.eos)
        early = steps < self.min_len if first < self.min_len else None
        if prefix is not None and first < prefix.size(1):
            inside = (steps < prefix.size(1)) & (steps < limits.of_entries)
            wanted = self._prefix_tokens(prefix, steps, inside)
            forced = wanted if forced is None else torch.where(wanted >= 0, wanted, forced)
            early = None if early is None else early & ~inside
        return Edits(self._everywhere(), self.eos, early, listed, forced)

    def forced_draft(self, prefix: Tensor, limits: LengthLimits) -> Draft:
        """The prefixes as the first draft, so that one pass scores them; also where no row has one,
        so that none depends on the others. ``prefix`` and ``limits``: as for ``edits``. Tokens
        after padding in a prefix are left out."""
        sizes = prefix.ne(self.pad).long().cumprod(1).sum(1).clamp(max=limits.of_rows)
        return Draft(prefix[:, : int(sizes.max())], sizes, forced=True)

    def _everywhere(self) -> tuple[tuple[int, float], ...]:
        """The constraints that hold at every entry."""
        if self.unk_penalty == 0:
            return ((self.pad, MINUS_INFINITY),)
        return ((self.pad, MINUS_INFINITY), (self.unk, -self.unk_penalty))

    def _matters(self, reach: tuple[int, int], limits: LengthLimits, prefix: Tensor | None) -> bool:
        """Whether a constraint depends on the step, for steps within ``reach``."""
        first, last = reach
        inside = prefix is not None and first < prefix.size(1)
        return first < self.min_len or last >= limits.shortest or inside

    def _prefix_tokens(self, prefix: Tensor, steps: Tensor, inside: Tensor) -> Tensor:
        """Long [B, W], the prefix token of each step; -1 where there is none, or padding."""
        token = prefix.gather(1, steps.clamp(max=prefix.size(1) - 1))
        return token.masked_fill(~inside | token.eq(self.pad), -1)
