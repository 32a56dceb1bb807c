"""How long the outputs of a batch may become."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


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
