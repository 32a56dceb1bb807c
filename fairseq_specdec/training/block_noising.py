"""Prefixes, blocks and the attention between them: the inputs of a drafter in training.

A drafter is shown a sentence up to a random cut and predicts the next k tokens in parallel
(Ge et al. 2022, section 3.2.1; Xia et al. 2023, section 3.1 and equations 5 to 7). Here several
cuts of one sentence share one pass: the prefix is computed once, and each cut adds one block of k
masks.

Layout, everywhere in this package: decoder position 0 holds ``</s>`` and position i + 1 holds the
target token y_i, so that the mask at position i + 1 predicts y_i. A cut c (0 <= c < L, where L is
the target's length with its ``</s>``) shows the prefix ``</s> y_0 .. y_{c-1}`` at positions 0 .. c
and predicts y_c .. y_{c+k-1} at positions c + 1 .. c + k.

B rows (sentences), C cuts a row, k the block size, T the width of the prefix.
"""

import torch
from torch import Tensor

GOLDEN_RATIO = 0.6180339887498949


def draw_cuts(lengths: Tensor, num_cuts: int) -> Tensor:
    """Draw cuts uniformly from 0 .. L - 1, independently.

    Args:
        lengths: long [B], target lengths with ``</s>``, each at least 1.
        num_cuts: C.

    Returns:
        long [B, C]. The block after a cut always holds at least one target token.
    """
    uniform = torch.rand(lengths.size(0), num_cuts, device=lengths.device)
    return _scale(uniform, lengths)


def fixed_cuts(ids: Tensor, lengths: Tensor, num_cuts: int) -> Tensor:
    """Cuts for validation: the same for a sentence in every epoch, batch and process.

    The C cuts of a row are spread evenly over the sentence from an offset that the sentence's
    number decides (multiples of the golden ratio, which fill the unit interval evenly), so that a
    validation set sees every part of its sentences even with one cut each.

    Args:
        ids: long [B], the sentences' numbers in their data set.
        lengths: long [B], target lengths with ``</s>``.
        num_cuts: C.

    Returns:
        long [B, C].
    """
    offset = (ids.to(torch.float64) + 1.0) * GOLDEN_RATIO
    step = torch.arange(num_cuts, device=ids.device, dtype=torch.float64) / num_cuts
    return _scale((offset[:, None] + step[None, :]) % 1.0, lengths)


def _scale(unit: Tensor, lengths: Tensor) -> Tensor:
    """Map [0, 1) to 0 .. L - 1. No product is rounded to L: below 1 is at most 1 - 2^-24."""
    return (unit * lengths[:, None]).long()


def block_targets(target: Tensor, cuts: Tensor, block_size: int, padding_idx: int) -> Tensor:
    """The tokens that each block should draft.

    Args:
        target: long [B, L], padded on the right with ``padding_idx``.
        cuts: long [B, C].
        block_size: k.
        padding_idx: marks a block position beyond ``</s>``, which has no target.

    Returns:
        long [B, C, k]; entry [b, c, j] is y_{cut + j}, or ``padding_idx``.
    """
    rows, width = target.shape
    steps = torch.arange(block_size, device=target.device)
    index = (cuts[:, :, None] + steps).view(rows, -1)
    tokens = target.gather(1, index.clamp(max=width - 1))
    return tokens.masked_fill(index >= width, padding_idx).view(rows, -1, block_size)


def block_positions(cuts: Tensor, block_size: int) -> Tensor:
    """Decoder positions (0-based) of the masks: long [B, C, k], entry [b, c, j] is cut + 1 + j."""
    return cuts[:, :, None] + torch.arange(1, block_size + 1, device=cuts.device)


def block_attention(
    cuts: Tensor, prefix_width: int, block_size: int, bidirectional: bool = False
) -> Tensor:
    """Which positions of [prefix | block 0 | .. | block C-1] attend to which.

    Prefix positions attend leftward, so their keys and values do not change when the prefix grows
    and can be cached in decoding. The masks of a block attend to the prefix up to their own cut and
    to every mask of the block. Prefix padding (on the right) is seen by no block.

    With ``bidirectional`` (the papers' scheme, one cut a row) prefix and block attend to all of
    prefix and block.

    Args:
        cuts: long [B, C].
        prefix_width: T.
        block_size: k.
        bidirectional: the papers' variant; needs C = 1.

    Returns:
        bool [B, T + C k, T + C k], True where the query (dim 1) may attend to the key (dim 2).
        Every query may attend to something.
    """
    rows, num_cuts = cuts.shape
    assert num_cuts == 1 or not bidirectional
    width = prefix_width + num_cuts * block_size
    device = cuts.device
    prefix = torch.arange(prefix_width, device=device)
    block_of = torch.arange(num_cuts, device=device).repeat_interleave(block_size)

    allowed = torch.zeros(rows, width, width, dtype=torch.bool, device=device)
    allowed[:, :prefix_width, :prefix_width] = prefix[:, None] >= prefix[None, :]
    allowed[:, prefix_width:, prefix_width:] = block_of[:, None] == block_of[None, :]
    seen = prefix[None, None, :] <= cuts[:, :, None]  # [B, C, T]
    allowed[:, prefix_width:, :prefix_width] = seen.repeat_interleave(block_size, dim=1)
    if bidirectional:
        inside = seen[:, 0]  # [B, T]
        allowed[:, :prefix_width, :prefix_width] |= inside[:, :, None] & inside[:, None, :]
        allowed[:, :prefix_width, prefix_width:] = inside[:, :, None]
    return allowed
