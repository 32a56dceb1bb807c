"""Layer normalisation without a module's call, which doubles the time for a few rows."""

import torch
from torch import Tensor, nn


class Norm:
    """An ``nn.LayerNorm`` for inference."""

    def __init__(self, module: nn.LayerNorm) -> None:
        self.shape = module.normalized_shape
        self.weight = module.weight.detach()
        self.bias = module.bias.detach()
        self.eps = module.eps

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.eps)
