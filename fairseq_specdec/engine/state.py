"""What moves through an iteration: the rows of a batch, a draft, and where the tokens of a block
stand. B is live rows, T columns, N draft tokens, W = N + 1 tokens of a block."""

from __future__ import annotations

import functools
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


def read_back(*tensors: Tensor) -> list[np.ndarray]:
    """float32 and long tensors of one shape as arrays; the host waits for a GPU once."""
    if not tensors[0].is_cuda:
        return [each.numpy() for each in tensors]
    bits = torch.cat([each.unsqueeze(-1).view(torch.int32) for each in tensors], -1)
    kinds = ["f4" if each.is_floating_point() else "i8" for each in tensors]
    table = bits.cpu().numpy().view(",".join(kinds))[..., 0]
    return [table[f"f{number}"] for number in range(len(kinds))]


def ascending(count: int, device: torch.device, start: int = 0, least: int = -(2**62)) -> Tensor:
    """Long [count], start, start + 1, ..; on a GPU part of a table, which no kernel has to make,
    where those below ``least`` are replaced by it."""
    if device.type != "cuda":
        return torch.arange(start, start + count)
    most = max(4096, 1 << (abs(start) + count).bit_length())
    return ascending_table(most, least, device)[most + start :][:count]


@functools.cache
def ascending_table(most: int, least: int, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        numbers = torch.arange(-most, most).clamp(min=least)
        return numbers.to(device)  # waited for: any stream may read it


def columns_after(lengths: Tensor, start: int, count: int, upto: int) -> Tensor:
    """Long [B, count], l + start, l + start + 1, .. of each length l (long [B]), or 0 where that is
    negative. ``upto``: larger than all of them."""
    if not lengths.is_cuda:
        return (lengths.unsqueeze(1) + ascending(count, lengths.device, start)).clamp(min=0)
    table = ascending(upto - start, lengths.device, start, least=0)
    return nn.functional.embedding(lengths, table.unfold(0, count, 1))


def scaled_sum(scale: float, x: Tensor, added: Tensor) -> Tensor:
    """``scale * x + added``; on a GPU in one kernel, which rounds once."""
    return torch.add(added, x, alpha=scale) if x.is_cuda else scale * x + added


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
        self._last: Tensor | None = self.tokens[:, :1]

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
        if self._last is None:
            self._last = self.tokens.gather(1, self.lengths.unsqueeze(1))
        return self._last

    def last_columns(self, width: int) -> Tensor:
        """Long [B, width], the columns of the last tokens of each row, ascending. A row with fewer
        has its first column several times, so that no entry is padding."""
        return columns_after(self.lengths, 1 - width, width, self.longest + 1)

    def reserve(self, width: int) -> None:
        """Let ``width`` tokens be written after the longest row."""
        missing = self.longest + 1 + width - self.tokens.size(1)
        if missing > 0:
            self.tokens = nn.functional.pad(self.tokens, (0, missing), value=self.pad)
            self.scores = nn.functional.pad(self.scores, (0, missing))

    def advance(self, sizes: Tensor | int, last: Tensor | None = None) -> None:
        """Count tokens that were written after each row, on the device.

        Args:
            sizes: long [B], or of each row; those of rows that leave next do not matter.
            last: long [B, 1], the last ones; None to look them up.
        """
        self.lengths = self.lengths + sizes
        self._last = last

    def grow(self, sizes: Sequence[int], emitted: Sequence[Sequence[int]] | None = None) -> None:
        """Count them on the host. ``emitted``: the tokens, which a GPU's rows must be given."""
        self.lengths_cpu = [have + more for have, more in zip(self.lengths_cpu, sizes)]
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
            self._last = None
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
        nothing = ascending(1, lengths.device).expand_as(lengths)
        return cls(lengths.new_empty(lengths.size(0), 0), nothing)

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
        seen: bool [B, W, T], slots that each token sees, itself included; or None.
        horizon: long [B, W], without ``seen`` the last slot that each token sees; None for its own.
    """

    positions: Tensor
    slots: Tensor
    upto: int
    run_from: int | None = None
    seen: Tensor | None = None
    horizon: Tensor | None = None

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

    def mask(self, like: Tensor | None = None) -> Tensor | None:
        """Bool [B, 1, W, upto], True where attention is allowed; None where all slots are seen.
        With ``like`` on a GPU, as ``additive`` gives it."""
        gpu = like if like is not None and like.is_cuda else None
        if self.seen is not None:
            return (self.seen if gpu is None else additive(self.seen, gpu)).unsqueeze(1)
        if self.run_from is not None and self.slots.size(1) == 1:
            return None
        horizon = self.slots if self.horizon is None else self.horizon
        if gpu is None:
            return horizon_mask(horizon, self.upto).unsqueeze(1)
        table = causal_table(max(256, 1 << (self.upto - 1).bit_length()), gpu.dtype, gpu.device)
        rows = nn.functional.embedding(horizon, table[:, : self.upto + -self.upto % 16])
        return rows[..., : self.upto].unsqueeze(1)


def additive(mask: Tensor, like: Tensor) -> Tensor:
    """A bool mask as numbers, for a GPU: torch's fused kernel would convert it in every layer.

    Args:
        mask: bool [.., T], True where attention is allowed.
        like: gives the precision.

    Returns:
        [.., T], 0 where attention is allowed, else -inf. Its memory has the layout of that kernel:
        rows begin at multiples of 16 numbers.
    """
    slots = mask.size(-1)
    padded = nn.functional.pad(mask, (0, -slots % 16))
    numbers = torch.where(padded, 0.0, float("-inf")).to(like.dtype)
    return numbers[..., :slots]


@functools.cache
def causal_table(slots: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """[slots, slots]: row h is what ``additive`` makes of the mask that shows slots 0 .. h."""
    with torch.inference_mode(False):
        return torch.full((slots, slots), float("-inf"), dtype=dtype).triu(1).to(device)


def causal_horizon(start: Tensor, width: int) -> Tensor:
    """Long [B, W], the slots of a block of ``width`` tokens, the first of which is at ``start``
    (long [B]): token w sees the slots up to its own."""
    if width == 1:
        return start.unsqueeze(1)
    return start.unsqueeze(1) + ascending(width, start.device)


def horizon_mask(horizon: Tensor, slots: int) -> Tensor:
    """Bool [B, W, T], True where attention is allowed, from the last slot that each query may
    attend to (long [B, W]), for T = ``slots`` slots."""
    return ascending(slots, horizon.device) <= horizon.unsqueeze(-1)
