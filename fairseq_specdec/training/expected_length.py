"""Weights that turn a cross-entropy into the gradient of a draft's expected accepted length."""

import torch
from torch import Tensor


def expected_length_weights(nll: Tensor, learnt: Tensor) -> Tensor:
    """How much each position's log-probability is worth in accepted tokens.

    With q_j the probability that a drafter gives to the right token at position j, the tokens
    accepted of a block are, in expectation, L = sum over i of q_1 ... q_i. Its derivative by
    log q_j is w_j = sum over i >= j of q_1 ... q_i. So the loss w_j nll_j, with w_j held fixed, has
    the gradient of -L: a position counts by how often it is reached, by how often its token is
    right and by what follows it.

    Args:
        nll: fp32 [N], -log q (nats) of the positions in the loss, in the order of ``learnt``.
        learnt: bool [.., k], which positions those are. A block ends at the first position that is
            not one of them.

    Returns:
        fp32 [N], without gradient, from 0 to k.
    """
    right = torch.zeros(learnt.shape, dtype=torch.float32, device=learnt.device)
    right[learnt] = torch.exp(-nll.detach().float())
    return right.cumprod(-1).flip(-1).cumsum(-1).flip(-1)[learnt]
