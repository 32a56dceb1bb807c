"""A decoder's embeddings, as the native library reads them."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ..memory import packed_source
from .linear import NativeLinear, floats
from .pointers import pointer
from .structures import Embedding


class EmbeddingTables:
    """The table of token embeddings; that of the positions grows with the longest sentence.
    ``tokens``: float32 [V, C], or packed. ``scale``: of the tokens' embeddings."""

    def __init__(self, tokens: Tensor | NativeLinear, scale: float) -> None:
        self.tokens = tokens
        self.scale = scale

    @classmethod
    def find(cls, decoder: Any) -> EmbeddingTables | None:
        """Of a decoder that adds up tokens and positions and does nothing else; None of others."""
        more = ("quant_noise", "project_in_dim", "layernorm_embedding", "source_copy")
        table = decoder.embed_tokens
        if any(getattr(decoder, name, None) is not None for name in more):
            return None
        if not isinstance(table, nn.Embedding) or table.max_norm is not None:
            return None
        held = packed_source(table)
        home = None if held is None else held.product
        tokens = home if isinstance(home, NativeLinear) else floats(table.weight)
        return cls(tokens, float(decoder.embed_scale))

    def of(self, positions: Tensor | None) -> Embedding:
        """For the library. ``positions``: float32 [P, C], which the caller keeps as long as the
        library reads it; or None."""
        tokens = self.tokens
        if isinstance(tokens, NativeLinear):
            table, packed, shape = None, tokens.pointer, (tokens.size, tokens.width)
        else:
            table, packed, shape = pointer(tokens), None, (tokens.size(0), tokens.size(1))
        return Embedding(
            table, packed, pointer(positions), shape[0],
            0 if positions is None else positions.size(0), shape[1], self.scale,
        )  # fmt: skip
