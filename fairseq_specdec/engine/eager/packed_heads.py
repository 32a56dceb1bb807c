"""Heads of a blockwise model, packed for decoding."""

from __future__ import annotations

from typing import Any, Callable, Optional

from torch import Tensor

from .linear import Linear


class PackedHeads:
    """Heads ``first`` .. ``last`` of a ``BlockHeads``, packed for this CPU.

    Args:
        first, last: numbers of learned heads.
        linear: makes a product of a weight and a bias; None for ``Linear``.
    """

    def __init__(
        self,
        heads: Any,
        first: int,
        last: int,
        linear: Optional[Callable[[Tensor, Tensor], Callable[[Tensor], Tensor]]] = None,
    ) -> None:
        self.activation = heads.activation
        rows = heads.rows(first, last)
        output = (heads.output.weight[rows], heads.output.bias[rows])
        if linear is None:
            self.hidden: Callable[[Tensor], Tensor] = Linear.of(heads.hidden)
            self.output: Callable[[Tensor], Tensor] = Linear(*output)
        else:
            self.hidden = linear(heads.hidden.weight, heads.hidden.bias)
            self.output = linear(*output)
        self.count = last - first + 1

    def __call__(self, features: Tensor) -> Tensor:
        """[.., C] decoder features to [.., n, C], ready for the vocabulary projection."""
        x = self.output(self.activation(self.hidden(features)))
        heads: Tensor = x.unflatten(-1, (self.count, features.size(-1)))
        return features.unsqueeze(-2) + heads
