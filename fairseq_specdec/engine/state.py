"""What moves through an iteration: the rows of a batch, a draft, and where the tokens of a block
stand. B is live rows, T columns, N draft tokens, W = N + 1 tokens of a block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn


def to_device(numbers: Any, device: torch.device) -> Tensor:
    """A tensor of Python numbers on a device, without waiting for it.

    ``torch.tensor(numbers, device=device)`` makes the host wait until a GPU has done all that was
    asked of it before.

    Args:
        numbers: a list of numbers, or a tensor on the CPU, which must not be changed afterwards
            until the device has been waited for.
        device: where to.
    """
    return torch.as_tensor(numbers).to(device, non_blocking=True)


def read_back(log_probs: Tensor, tokens: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """float32 and long tensors of one shape as arrays; the host waits for a GPU once."""
    if not log_probs.is_cuda:
        return log_probs.numpy(), tokens.numpy()
    bits, words = torch.stack([log_probs.view(torch.int32).long(), tokens]).cpu().numpy()
    return bits.astype(np.int32).view(np.float32), words


def floats(tensor: Tensor) -> Tensor:
    """Float32, in one piece, on the CPU, without a graph; itself where it is so already."""
    return tensor.detach().float().cpu().contiguous()


def pointer(tensor: Tensor | None, dtype: torch.dtype = torch.float32) -> int | None:
    """Where the numbers of a tensor on the CPU lie; None for None. The caller keeps the tensor.

    Raises:
        TypeError: another format, device or order of the numbers than row by row, without gaps.
    """
    if tensor is None:
        return None
    if tensor.dtype != dtype or not tensor.is_contiguous() or tensor.device.type != "cpu":
        raise TypeError(
            f"the native library reads {dtype} row by row on the CPU, not {tensor.dtype} with "
            f"strides {tensor.stride()} on {tensor.device}"
        )
    return tensor.data_ptr()


class Rows:
    """The outputs of the sentences of a batch that have not ended. All that a row owns is here.

    The lengths are the only ones that there are: a cache slot from a row's length on is stale,
    since no layout shows it, so a rejected draft is rolled back by not being counted. Columns of
    tokens and scores from a row's length on hold anything.

    Attributes:
        tokens: long [B, T]; column 0 is the start symbol, columns 1 .. lengths[b] are accepted.
        scores: float [B, T]; column i is the log-probability of token i + 1.
        lengths: long [B], accepted tokens, on the device.
        lengths_cpu: the same numbers as Python ints; empty when no row is left.
        origin: number of each row in the batch that came in.

    Args:
        columns: T to begin with; ``reserve`` adds more.
        pad: padding index, which fills unused columns.
    """

    def __init__(self, count: int, columns: int, start: int, pad: int, like: Tensor) -> None:
        self.pad = pad
        self.tokens = torch.full((count, columns), pad, device=like.device)
        self.tokens[:, 0] = start
        self.scores = torch.zeros((count, columns), device=like.device)
        self.lengths = torch.zeros(count, dtype=torch.long, device=like.device)
        self.lengths_cpu = [0] * count
        self.origin = list(range(count))
        self._outputs = [[start] for _ in range(count)] if like.is_cuda else None

    @property
    def shortest(self) -> int:
        """Smallest length; there must be a row."""
        return min(self.lengths_cpu)

    @property
    def longest(self) -> int:
        """Largest length; there must be a row."""
        return max(self.lengths_cpu)

    def outputs(self) -> list[list[int]]:
        """The start symbol and the accepted tokens of each row. On a GPU they are those that
        ``grow`` was given: the host waits for nothing here."""
        if self._outputs is not None:
            return self._outputs
        table = self.tokens[:, : self.longest + 1].tolist()
        return [row[: length + 1] for row, length in zip(table, self.lengths_cpu)]

    def last(self) -> Tensor:
        """Long [B, 1], the last accepted token, or the start symbol."""
        return self.tokens.gather(1, self.lengths.unsqueeze(1))

    def last_columns(self, width: int) -> Tensor:
        """Long [B, width], the columns of the last tokens of each row, ascending. A row with fewer
        has its first column several times, so that no entry is padding."""
        columns = torch.arange(1 - width, 1, device=self.lengths.device)
        return (self.lengths.unsqueeze(1) + columns).clamp(min=0)

    def reserve(self, width: int) -> None:
        """Let ``width`` tokens be written after the longest row."""
        missing = self.longest + 1 + width - self.tokens.size(1)
        if missing > 0:
            self.tokens = nn.functional.pad(self.tokens, (0, missing), value=self.pad)
            self.scores = nn.functional.pad(self.scores, (0, missing))

    def grow(
        self,
        sizes: Tensor,
        sizes_cpu: Sequence[int],
        emitted: Sequence[Sequence[int]] | None = None,
    ) -> None:
        """Count tokens that were written after each row.

        Args:
            sizes: long [B].
            sizes_cpu: the same numbers.
            emitted: the tokens, which a GPU's rows must be given.
        """
        self.lengths = self.lengths + sizes
        self.lengths_cpu = [have + more for have, more in zip(self.lengths_cpu, sizes_cpu)]
        if self._outputs is not None and emitted is not None:
            for output, tokens in zip(self._outputs, emitted):
                output.extend(tokens)

    def keep(self, kept: list[int]) -> Tensor:
        """Keep only these rows (ascending numbers); returned as long [B'] on the device."""
        rows = to_device(kept, self.lengths.device)
        self.lengths_cpu = [self.lengths_cpu[row] for row in kept]
        self.origin = [self.origin[row] for row in kept]
        if self._outputs is not None:
            self._outputs = [self._outputs[row] for row in kept]
        if kept:
            self.tokens = self.tokens.index_select(0, rows)
            self.scores = self.scores.index_select(0, rows)
            self.lengths = self.lengths.index_select(0, rows)
        return rows


class Draft(NamedTuple):
    """Draft tokens of a batch: in each row every token follows the one before it.

    Attributes:
        tokens: long [B, N]; entries from a row's size on are ignored. N may be 0.
        sizes: long [B], draft tokens of each row; 0 makes the iteration an ordinary autoregressive
            step for that row.
        log_probs: float [B, N, V], the distributions that the tokens were drawn from, or None.
        passes: passes of a small model that drafts token by token; 0 for other drafters.
        forced: no drafter made it: constraints leave no other tokens.
        scores: float [B, N], the drafter's log-probabilities of its tokens, or None.
    """

    tokens: Tensor
    sizes: Tensor
    log_probs: Tensor | None = None
    passes: int = 0
    forced: bool = False
    scores: Tensor | None = None

    @property
    def width(self) -> int:
        """N."""
        return self.tokens.size(1)

    @classmethod
    def empty(cls, lengths: Tensor) -> Draft:
        """No draft for any row (``lengths``: long [B])."""
        return cls(lengths.new_empty(lengths.size(0), 0), torch.zeros_like(lengths))

    def limited(self, max_tokens: int, room: Tensor | None = None) -> Draft:
        """The first ``max_tokens`` tokens of every row, and at most ``room`` (long [B]) of each."""
        sizes = self.sizes if room is None else torch.minimum(self.sizes, room)
        if self.width <= max_tokens:
            return self._replace(sizes=sizes)
        return self._replace(
            tokens=self.tokens[:, :max_tokens],
            sizes=sizes.clamp(max=max_tokens),
            log_probs=None if self.log_probs is None else self.log_probs[:, :max_tokens],
            scores=None if self.scores is None else self.scores[:, :max_tokens],
        )


def first_slots(needed: int) -> int:
    """Cache slots prepared for every row, which may need up to so many; the cache grows later."""
    return min(needed, 63)


class Layout(NamedTuple):
    """The positions and cache slots of a block of W tokens in each row.

    Attributes:
        positions: long [B, W], row of the position table of each token.
        slots: long [B, W], cache slot of each token's keys and values; the same tensor as
            ``positions`` where slots are positions.
        upto: cache slots that attention looks at, T; larger than every slot.
        run_from: the first slot, where all rows write one and the same run of slots; else None.
        seen: bool [B, W, T], slots that each token sees, itself included; None where token w sees
            the slots up to its own.
    """

    positions: Tensor
    slots: Tensor
    upto: int
    run_from: int | None = None
    seen: Tensor | None = None

    @classmethod
    def at(cls, positions: Tensor, last_cpu: Sequence[int]) -> Layout:
        """Tokens whose slots are their positions.

        Args:
            positions: long [B, W], ascending by one; a row with fewer tokens may repeat its first.
            last_cpu: the positions of the last column as Python ints.
        """
        upto = max(last_cpu) + 1
        even = upto == min(last_cpu) + 1 >= positions.size(1)
        return cls(positions, positions, upto, upto - positions.size(1) if even else None)

    @classmethod
    def chain(cls, rows: Rows, width: int) -> Layout:
        """The last token of each row and width - 1 draft tokens after it."""
        slots = causal_horizon(rows.lengths, width)
        return cls.at(slots, [have + width - 1 for have in rows.lengths_cpu])

    @property
    def in_order(self) -> bool:
        """Whether the positions are the slots."""
        return self.positions is self.slots

    def mask(self) -> Tensor | None:
        """Bool [B, 1, W, upto], True where attention is allowed; None where all slots are seen."""
        if self.seen is not None:
            return self.seen.unsqueeze(1)
        alone = self.run_from is not None and self.slots.size(1) == 1
        return None if alone else horizon_mask(self.slots, self.upto).unsqueeze(1)


def causal_horizon(start: Tensor, width: int) -> Tensor:
    """Long [B, W], the slots of a block of ``width`` tokens, the first of which is at ``start``
    (long [B]): token w sees the slots up to its own."""
    if width == 1:
        return start.unsqueeze(1)
    return start.unsqueeze(1) + torch.arange(width, device=start.device)


def horizon_mask(horizon: Tensor, slots: int) -> Tensor:
    """Bool [B, W, T], True where attention is allowed, from the last slot that each query may
    attend to (long [B, W]), for T = ``slots`` slots."""
    reach = torch.arange(slots, device=horizon.device)
    return reach <= horizon.unsqueeze(-1)
