"""The constraints that stock ``SequenceGenerator`` applies, for a block of positions."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_specdec.engine.scores import MINUS_INFINITY, Edits
from fairseq_specdec.engine.state import Draft, to_device
from fairseq_specdec.errors import UsageError


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
    min_len: int = 1
    unk_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    # length limit a * S + b, where S is the padded source width (as stock computes it)
    max_len_a: float = 0
    max_len_b: int = 200
    max_positions: int = 1024  # of the verifier's decoder
    # S is the length of each sentence, whose output then depends on no other of its batch
    own_limits: bool = False

    def length_limits(self, net_input: dict[str, Any]) -> LengthLimits:
        """Those of a batch, of which fairseq's ``net_input`` is given."""
        lengths = [net_input["src_tokens"].size(1)]
        if self.own_limits and self.max_len_a != 0:
            lengths = net_input["src_lengths"].tolist()
        limits = [self._length_limit(length) for length in lengths]
        shortest, longest = min(limits), max(limits)
        if shortest == longest:
            return LengthLimits(longest, longest)
        return LengthLimits(shortest, longest, to_device(limits, net_input["src_tokens"].device))

    def _length_limit(self, source_width: int) -> int:
        limit = min(int(self.max_len_a * source_width + self.max_len_b), self.max_positions - 1)
        if self.min_len > limit:
            raise UsageError(
                "",
                f"--min-len {self.min_len} is larger than the length limit {limit} (--max-len-a "
                f"{self.max_len_a} x source width {source_width} + --max-len-b "
                f"{self.max_len_b}, at most the model's {self.max_positions} positions)",
            )
        return limit

    @property
    def reads_hypotheses(self) -> bool:
        """Whether a constraint depends on the tokens before."""
        return self.no_repeat_ngram_size > 0

    def edits(
        self,
        steps: Tensor,
        reach: tuple[int, int],
        limits: LengthLimits,
        prefix: Tensor | None,
        listed: Tensor | None = None,
    ) -> Edits:
        """What to change at entries anywhere in the outputs.

        Args:
            steps: long [B, W], the number of the token that each entry decides.
            reach: the smallest and the largest of them, or numbers beyond these.
            limits: the step at which only </s> may follow.
            prefix: long [B, P] forced tokens (``--prefix-size``), padded on the right; or None.
            listed: long [B, W, n], tokens forbidden by n-grams, as in ``Edits``; or None.
        """
        first, last = reach
        everywhere: tuple[tuple[int, float], ...] = ((self.pad, MINUS_INFINITY),)
        if self.unk_penalty != 0:
            everywhere += ((self.unk, -self.unk_penalty),)
        prefix = None if prefix is None or first >= prefix.size(1) else prefix
        if last < limits.shortest and first >= self.min_len and prefix is None:
            return Edits(everywhere, self.eos, None, listed)
        forced = None
        if last >= limits.shortest:
            at_limit = steps >= limits.of_entries
            forced = torch.full_like(steps, -1).masked_fill_(at_limit, self.eos)
        early = steps < self.min_len if first < self.min_len else None
        if prefix is not None:
            inside = (steps < prefix.size(1)) & (steps < limits.of_entries)
            wanted = prefix.gather(1, steps.clamp(max=prefix.size(1) - 1))
            wanted = wanted.masked_fill(~inside | wanted.eq(self.pad), -1)
            forced = wanted if forced is None else torch.where(wanted >= 0, wanted, forced)
            early = None if early is None else early & ~inside
        return Edits(everywhere, self.eos, early, listed, forced)

    def forced_draft(self, prefix: Tensor, limits: LengthLimits) -> Draft:
        """The prefixes as the first draft, so that one pass scores them; also where no row has one,
        so that none depends on the others. ``prefix`` and ``limits``: as for ``edits``. Tokens
        after padding in a prefix are left out."""
        sizes = prefix.ne(self.pad).long().cumprod(1).sum(1).clamp(max=limits.of_rows)
        return Draft(prefix[:, : int(sizes.max())], sizes, forced=True)
