"""The product with a decoder's output projection, to which the embeddings may be tied."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .linear import Linear


class AdaptiveProduct:
    """Log-probabilities by an adaptive softmax (Grave et al. 2017), which serve as logits."""

    def __init__(self, softmax: Any) -> None:
        self.softmax = softmax

    def __call__(self, features: Tensor) -> Tensor:
        """[.., V] of features [.., C']."""
        rows = features.reshape(1, -1, features.size(-1))
        log_probs: Tensor = self.softmax.get_log_prob(rows, None)
        return log_probs.view(*features.shape[:-1], -1)


def _no_vocabulary(features: Tensor) -> Tensor:
    raise RuntimeError("a part of a decoder without its output projection gives no logits")


def vocabulary_product(decoder: Any, free_unpacked: bool = False) -> Callable[[Tensor], Tensor]:
    """The product of a decoder's output projection, or its adaptive softmax; of some layers of
    one, without either, what raises.
    ``free_unpacked``: free the weight, as ``Linear.of``. It stays where embeddings are tied to it,
    or a chain looks up rows of it."""
    if getattr(decoder, "adaptive_softmax", None) is not None:
        return AdaptiveProduct(decoder.adaptive_softmax)
    projection, embeddings = decoder.output_projection, decoder.embed_tokens
    if projection is None:
        return _no_vocabulary
    tied = embeddings.weight is projection.weight
    read = tied or getattr(decoder, "chain", None) is not None
    return Linear.of(projection, free_unpacked=free_unpacked and not read)
