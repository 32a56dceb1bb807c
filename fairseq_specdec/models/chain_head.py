"""Dependence between the tokens of a block, which parallel masks lack."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ChainHead(nn.Module):
    """A small recurrent network over the tokens of a block, on top of the masks' features.

    Masks decoded in parallel are independent of one another: equation (6) of Ge et al. 2022 has k
    independent factors. So a block may mix two good translations, and the verifier rejects the
    first token of the second one. The chain conditions position j on the tokens before it::

        s_j = tanh(W [z_j ; e(y_{j-1}) ; s_{j-1}]),    feature_j = z_j + U s_j

    with z_j the mask's feature and e the embedding of the token at position j - 1 (at j = 1 the
    last accepted one). In training y is the target; in decoding the k steps run from the left over
    the few best tokens of each mask, which costs a small fraction of a decoder layer. The deep
    part, source and prefix, stays parallel.

    Args:
        dim: C, the width of z and e.
        width: H, the width of s.
    """

    def __init__(self, dim: int, width: int):
        super().__init__()
        self.width = width
        self.of_mask = nn.Linear(dim, width)
        self.of_past = nn.Linear(dim + width, width, bias=False)
        self.out = nn.Linear(width, dim, bias=False)
        nn.init.zeros_(self.out.weight)  # contributes nothing at the start of training

    def forward(self, features: Tensor, previous: Tensor) -> Tensor:
        """Features with the chain's contribution.

        Args:
            features: [N, K, C], z of N blocks.
            previous: [N, K, C], the embeddings of the tokens before each position.

        Returns:
            [N, K, C].
        """
        of_mask = self.of_mask(features)
        state = features.new_zeros(features.size(0), self.width)
        states = []
        for j in range(features.size(1)):
            past = self.of_past(torch.cat([previous[:, j], state], -1))
            state = torch.tanh(of_mask[:, j] + past)
            states.append(state)
        return features + self.out(torch.stack(states, 1))
