"""Dependence between the tokens of a block, which parallel masks lack."""

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

    def forward(self, features: Tensor, previous: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Features with the chain's contribution.

        Args:
            features: [N, K, C], z of N blocks.
            previous: [N, K, C], the embeddings of the tokens before each position.
            lengths: long [N], length of each block; None for whole blocks. What follows is
                left unchanged.

        Returns:
            [N, K, C].
        """
        blocks, steps, dim = features.shape
        if lengths is None:
            lengths = torch.full((blocks,), steps, device=features.device)
        # Longest first: the blocks that reach step j are then the first ones of step j - 1.
        lengths, order = lengths.sort(descending=True, stable=True)
        at = torch.arange(steps, device=lengths.device)
        reach: list[int] = (lengths[:, None] > at).sum(0).tolist()
        places = torch.cat([order[:n] * steps + j for j, n in enumerate(reach)])
        of_token, of_state = self.of_past.weight.split([dim, self.width], 1)
        known = self.of_mask(features.flatten(0, 1)[places])
        known = known + nn.functional.linear(previous.flatten(0, 1)[places], of_token)
        state = features.new_zeros(blocks, self.width)
        states = []
        for part in known.split(reach):
            state = torch.tanh(part + nn.functional.linear(state[: len(part)], of_state))
            states.append(state)
        added = self.out(torch.cat(states))
        return features.flatten(0, 1).index_add(0, places, added).view_as(features)
