"""``token_choice.chain_steps`` in one Triton kernel, where torch starts five per mask.

A program runs one row from the first mask to the last, looks up the rows of its candidates and
keeps the state in registers. Nothing waits for the host, so CUDA graphs can record it.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

WARPS = 16
TILE = 2**15
"""Weights that a program reads at once: 64 registers of each of its threads."""


@triton.jit
def _products(
    table, numbers, state, wide, count: tl.constexpr, width: tl.constexpr,
    padded: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """[padded], the products of a state with the ``count`` rows of a table [V, width] that
    ``numbers`` points at; without numbers, with the columns of a table [width, count]."""
    steps = tl.arange(0, padded // step)[:, None]
    products = tl.full([padded // step, step], 0.0, tl.float32)
    for i in range(padded // step):
        at = i * step + tl.arange(0, step)
        if numbers is None:
            places = at[:, None] + wide[None, :] * count
        else:
            places = tl.load(numbers + at, at < count, other=0)[:, None] * width + wide[None, :]
        inside = (at < count)[:, None] & (wide < width)[None, :]
        weights = tl.load(table + places, inside, other=0.0).to(tl.float32)
        sums = tl.sum(weights * state[None, :], 1)
        products = tl.where(steps == i, sums[None, :], products)
    return tl.reshape(products, [padded])


@triton.jit(do_not_specialize=["masks"])
def chain(
    of_mask, bonuses, candidates, previous, of_token, of_state, for_token, tokens, chances, masks,
    count: tl.constexpr, width: tl.constexpr, judges: tl.constexpr, padded_count: tl.constexpr,
    padded_width: tl.constexpr, count_step: tl.constexpr, width_step: tl.constexpr,
):  # fmt: skip
    wide = tl.arange(0, padded_width)
    rank = tl.arange(0, padded_count)
    token = tl.load(previous + tl.program_id(0))
    of_past = tl.full([padded_width], 0.0, tl.float32)
    for place in range(masks):
        mask = tl.program_id(0) * masks + place
        known = tl.load(of_token + token * width + wide, wide < width, other=0.0)
        known += tl.load(of_mask + mask * width + wide, wide < width, other=0.0)
        known += of_past
        shrunk = tl.exp(-2 * tl.abs(known))
        state = (1 - shrunk) / (1 + shrunk)  # tanh, which Triton's language lacks
        state = tl.where(known < 0, -state, state)
        numbers = candidates + mask * count
        total = tl.load(bonuses + mask * count + rank, rank < count, other=-float("inf"))
        total = total.to(tl.float32)
        total += _products(for_token, numbers, state, wide, count, width, padded_count, count_step)
        # As in torch, NaN is above all numbers, and of equals the first is chosen.
        ordered = tl.where(total == total, total, float("inf"))
        best = tl.max(ordered, 0)
        chosen = tl.min(tl.where(ordered == best, rank, count), 0)
        if judges:
            chance = 1 / tl.sum(tl.exp(total - best), 0)
            chosen = tl.where(chance == chance, chosen, 0)  # one NaN makes all of a softmax NaN
            tl.store(chances + mask, chance)
        token = tl.load(numbers + chosen)
        tl.store(tokens + mask, token)
        if place + 1 < masks:
            of_past = _products(of_state, None, state, wide, width, width, padded_width, width_step)


def chain_steps(
    of_mask: Tensor,
    bonuses: Tensor,
    candidates: Tensor,
    previous: Tensor,
    tables: tuple[Tensor, Tensor, Tensor],
    judges: bool,
) -> tuple[Tensor, Tensor | None]:
    """As ``token_choice.chain_steps``; all tensors contiguous."""
    (rows, masks, count), width = candidates.shape, of_mask.size(2)
    tokens = candidates.new_empty(rows, masks)
    chances = of_mask.new_empty(rows, masks) if judges else None
    padded = triton.next_power_of_2(count), triton.next_power_of_2(width)
    steps = [min(size, TILE // padded[1]) for size in padded]
    with torch.cuda.device_of(of_mask):
        chain[(rows,)](
            of_mask, bonuses, candidates, previous, *tables, tokens, chances, masks, count, width,
            judges, *padded, *steps, num_warps=WARPS, enable_fp_fusion=True,
        )  # fmt: skip
    return tokens, chances
