"""The live hypotheses of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .transfer import to_device


class Hypotheses:
    """One hypothesis of each of B sentences.

    Tokens are written in place; columns from a row's length on hold anything.

    Attributes:
        tokens: long [B, T]; column 0 is the start symbol, columns 1 .. lengths[b] are accepted.
        scores: float [B, T]; column i is the log-probability of token i + 1.
        lengths: long [B], accepted tokens.
        lengths_cpu: the same numbers as Python ints; empty when no row is left.

    Args:
        columns: T to begin with; ``reserve`` adds more.
        pad: padding index, which fills unused columns.
    """

    def __init__(self, rows: int, columns: int, start: int, pad: int, like: Tensor) -> None:
        self.pad = pad
        shape = (rows, columns)
        self.tokens = torch.full(shape, pad, device=like.device)
        self.tokens[:, 0] = start
        self.scores = torch.zeros(shape, device=like.device)
        self.lengths = torch.zeros(rows, dtype=torch.long, device=like.device)
        self.lengths_cpu = [0] * rows
        self._outputs = [[start] for _ in range(rows)] if like.is_cuda else None

    @classmethod
    def of(cls, tokens: Tensor, lengths: list[int]) -> Hypotheses:
        """Hypotheses that are there already. ``tokens``: long [B, T], as the attribute.
        ``lengths``: accepted tokens of each row."""
        made = cls(tokens.size(0), tokens.size(1), 0, 0, tokens)
        made.tokens = tokens
        made.lengths, made.lengths_cpu = to_device(lengths, tokens.device), lengths
        return made

    @property
    def shortest(self) -> int:
        """Smallest length; there must be a row."""
        return min(self.lengths_cpu)

    @property
    def longest(self) -> int:
        """Largest length; there must be a row."""
        return max(self.lengths_cpu)

    @property
    def even(self) -> bool:
        """Whether all rows have one length."""
        return self.longest == self.shortest

    def outputs(self) -> list[list[int]]:
        """The start symbol and the accepted tokens of each row. On a GPU they are those that
        ``emit`` was given: nobody waits for them here."""
        if self._outputs is not None:
            return self._outputs
        table = self.tokens[:, : self.longest + 1].tolist()
        return [row[: length + 1] for row, length in zip(table, self.lengths_cpu)]

    def emit(self, row: int, tokens: Sequence[int]) -> None:
        """Take note, on a GPU, of accepted tokens that the host has read."""
        if self._outputs is not None:
            self._outputs[row].extend(tokens)

    def last(self) -> Tensor:
        """Long [B, 1], the last accepted token, or the start symbol."""
        return self.tokens.gather(1, self.lengths.unsqueeze(1))

    def reserve(self, width: int) -> None:
        """Let ``width`` tokens be written after the longest row."""
        missing = self.longest + 1 + width - self.tokens.size(1)
        if missing > 0:
            self.tokens = nn.functional.pad(self.tokens, (0, missing), value=self.pad)
            self.scores = nn.functional.pad(self.scores, (0, missing))

    def write(self, at: Tensor, tokens: Tensor) -> None:
        """Put tokens (long [B, W]) into columns ``at`` (long [B, W])."""
        self.tokens.scatter_(1, at, tokens)

    def write_scores(self, after: Tensor, scores: Tensor) -> None:
        """Put the log-probabilities (float [B, W]) of the tokens after columns ``after``."""
        self.scores.scatter_(1, after, scores)

    def select(self, rows: Tensor, rows_cpu: list[int]) -> None:
        """Keep only these rows (ascending row numbers; on the device and as Python ints)."""
        self.tokens = self.tokens.index_select(0, rows)
        self.scores = self.scores.index_select(0, rows)
        self.lengths = self.lengths.index_select(0, rows)
        self.lengths_cpu = [self.lengths_cpu[row] for row in rows_cpu]
        if self._outputs is not None:
            self._outputs = [self._outputs[row] for row in rows_cpu]
