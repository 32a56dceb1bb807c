"""A decoder's embeddings, as the native library reads them."""

from __future__ import annotations

from typing import Any, Optional

from torch import Tensor, nn

from .stack import floats
from .structures import Embedding


class EmbeddingTables:
    """The table of token embeddings; that of the positions grows with the longest sentence.

    Args:
        tokens: float32 [V, C].
        scale: of the tokens' embeddings.
    """

    def __init__(self, tokens: Tensor, scale: float) -> None:
        self.tokens = tokens
        self.scale = scale

    @classmethod
    def find(cls, decoder: Any) -> Optional[EmbeddingTables]:
        """Of a decoder that adds up tokens and positions and does nothing else; None of others."""
        more = ("quant_noise", "project_in_dim", "layernorm_embedding", "source_copy")
        table = decoder.embed_tokens
        if any(getattr(decoder, name, None) is not None for name in more):
            return None
        if not isinstance(table, nn.Embedding) or table.max_norm is not None:
            return None
        return cls(floats(table.weight), float(decoder.embed_scale))

    def of(self, positions: Optional[Tensor]) -> Embedding:
        """For the library.

        Args:
            positions: float32 [P, C], kept by the caller; or None.
        """
        vocabulary, width = self.tokens.shape
        return Embedding(
            self.tokens.data_ptr(),
            None if positions is None else positions.data_ptr(),
            vocabulary,
            0 if positions is None else positions.size(0),
            width,
            self.scale,
        )
