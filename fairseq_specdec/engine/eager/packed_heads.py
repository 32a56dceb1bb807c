"""Heads of a blockwise model, packed for decoding."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .linear import Linear


class PackedHeads:
    """Heads ``first`` .. ``last`` of a ``BlockHeads``, packed for this CPU.

    Args:
        first, last: numbers of learned heads.
        linear: makes a product of a weight and a bias.
    """

    def __init__(
        self,
        heads: Any,
        first: int,
        last: int,
        linear: Callable[[Tensor, Tensor], Callable[[Tensor], Tensor]] = Linear,
    ) -> None:
        self.activation = heads.activation
        rows = heads.rows(first, last)
        self.hidden = linear(heads.hidden.weight, heads.hidden.bias)
        self.output = linear(heads.output.weight[rows], heads.output.bias[rows])
        self.count = last - first + 1

    def __call__(self, features: Tensor) -> Tensor:
        """[.., C] decoder features to [.., n, C], ready for the vocabulary projection."""
        x = self.output(self.activation(self.hidden(features)))
        heads: Tensor = x.unflatten(-1, (self.count, features.size(-1)))
        return features.unsqueeze(-2) + heads
