"""The product with a decoder's output projection, to which the embeddings may be tied."""

from typing import Any

from .linear import Linear


def vocabulary_product(decoder: Any, free_unpacked: bool = False) -> Linear:
    """The product of a decoder's output projection. ``free_unpacked``: free the weight, as
    ``Linear.of``. It stays where embeddings are tied to it, or a chain looks up rows of it."""
    projection = decoder.output_projection
    tied = decoder.embed_tokens.weight is projection.weight
    read = tied or getattr(decoder, "chain", None) is not None
    return Linear.of(projection, free_unpacked=free_unpacked and not read)
