"""Glancing training (Qian et al. 2021), as Ge et al. 2022 (3.2.1) and Xia et al. 2023 (3.1) use it.

A first pass without gradients drafts the block. The worse the draft, the more gold tokens are
revealed in a second pass, and only what stays hidden is learnt: the model moves from filling small
gaps to drafting whole blocks by itself.
"""

import torch
from torch import Tensor


def glancing_ratio(start: float, stop: float, num_updates: int, total_updates: int) -> float:
    """The ratio after ``num_updates``: a straight line from ``start`` to ``stop``, then ``stop``.

    Args:
        start, stop: ratios in [0, 1].
        num_updates: updates done so far.
        total_updates: when ``stop`` is reached; not used when start equals stop.
    """
    if start == stop:
        return start
    done = min(1.0, num_updates / total_updates)
    return start + (stop - start) * done


def choose_revealed(correct: Tensor, valid: Tensor, ratio: float) -> Tensor:
    """Choose which targets of each block to reveal.

    Of each block, round(ratio * wrong) of its valid positions, drawn uniformly, where ``wrong``
    counts the valid positions that the first pass got wrong (Qian et al. 2021, equation 6, with the
    Hamming distance). Halves round up, so that a block with one error can still have it revealed.

    Args:
        correct: bool [..., k], the first pass's draft equals the target.
        valid: bool [..., k], the position has a target.
        ratio: in [0, 1].

    Returns:
        bool [..., k], a subset of ``valid``.
    """
    wrong = (valid & ~correct).sum(-1, keepdim=True)
    count = torch.floor(wrong.float() * ratio + 0.5).long()
    order = torch.rand(valid.shape, device=valid.device).masked_fill(~valid, 2.0)
    rank = order.argsort(-1).argsort(-1)
    return (rank < count) & valid
