"""The product with a decoder's output projection, to which the embeddings may be tied."""

from __future__ import annotations

from typing import Any, Callable

from torch import Tensor

from .allocator import give_back_freed_memory
from .linear import Linear
from .packed_module import PackedModule
from .packed_rows import PackedRows

LARGE = 2**22
"""Numbers in a vocabulary's weight (16 MiB of fp32) from which on only the packed one is kept. To
look up the 26 tokens of a block in the packed weight takes some 10 us longer for 6,024 x 256 (1% of
greedy's time with models that small), 35 us for 32,000 x 512 (0.1% of an iteration)."""


class AdaptiveProduct:
    """Log-probabilities by an adaptive softmax (Grave et al. 2017), which serve as logits.

    Args:
        softmax: fairseq's ``AdaptiveSoftmax``, whose own code runs.
    """

    def __init__(self, softmax: Any) -> None:
        self.softmax = softmax

    def __call__(self, features: Tensor) -> Tensor:
        """[.., V] of features [.., C']."""
        rows = features.reshape(1, -1, features.size(-1))
        found: Tensor = self.softmax.get_log_prob(rows, None)
        return found.view(*features.shape[:-1], -1)


def vocabulary_product(decoder: Any, free_unpacked: bool = False) -> Callable[[Tensor], Tensor]:
    """The product of a decoder's output projection, or what its adaptive softmax says.

    Args:
        decoder: fairseq ``TransformerDecoder``, ``BlockDecoder`` or any module with their
            attributes.
        free_unpacked: free the weight, as ``Linear.of``, and the embeddings that are tied to it, if
            it is large and its rows can be read from the packed one. A decoder with a chain keeps
            it, because the chain looks up hundreds of rows in an iteration.
    """
    if getattr(decoder, "adaptive_softmax", None) is not None:
        return AdaptiveProduct(decoder.adaptive_softmax)
    projection, embeddings = decoder.output_projection, decoder.embed_tokens
    product = Linear.of(projection)
    if not free_unpacked or product.weight is not None or isinstance(projection, PackedModule):
        return product
    if projection.weight.numel() < LARGE or getattr(decoder, "chain", None) is not None:
        return product
    tied = [embeddings] if embeddings.weight is projection.weight else []
    if any(table.max_norm is not None for table in tied):
        return product  # a look-up changes the weight
    assert product.packed is not None
    if tied:
        product.rows = PackedRows.find(product.packed, projection.weight.detach())
    if not tied or product.rows is not None:
        PackedModule.replace([projection], product, tied)
        give_back_freed_memory()
    return product
