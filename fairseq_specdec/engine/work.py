"""What a pass through a stack of layers has to do, for a model of what it takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass
class Work:
    """The work of products and of what lies between them; ``add`` counts a product.

    Attributes:
        multiply_adds: of a row, by the format that the weights are stored in.
        nbytes: of these weights, which a pass reads once.
        breadth: numbers of a row that are worked on between products: layers times the dimension of
            the model, and a tenth of the entries of a distribution, which are only compared.
    """

    multiply_adds: dict[str, int] = field(default_factory=dict)
    nbytes: int = 0
    breadth: float = 0.0

    def add(self, number_format: str, multiply_adds: int, nbytes: int) -> None:
        self.multiply_adds[number_format] = self.multiply_adds.get(number_format, 0) + multiply_adds
        self.nbytes += nbytes

    def share(self, part: float) -> Work:
        """A part of it, as of a product with some rows of its weights."""
        return Work(
            {name: round(part * count) for name, count in self.multiply_adds.items()},
            round(part * self.nbytes),
            part * self.breadth,
        )


class Pass(NamedTuple):
    """Some work for a number of rows of each sentence.

    Attributes:
        rows: of each sentence, all together in one product.
        times: one after the other.
    """

    work: Work
    rows: float
    times: int = 1
