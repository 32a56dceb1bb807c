"""The rows of a position table (pure functions)."""

from typing import Any

from torch import Tensor, nn

from fairseq_specdec.errors import UsageError


def position_rows(embed_positions: nn.Module | None, padding_idx: int, count: int) -> Tensor:
    """The embeddings of positions 0 .. count-1.

    fairseq counts positions from ``padding_idx + 1``. Its sinusoidal module ignores the
    ``positions`` argument and its learned module asserts on it, so the table is indexed here.

    Args:
        embed_positions: fairseq's learned or sinusoidal positional embedding, not None.

    Returns:
        Float tensor of shape [count, C].

    Raises:
        ValueError: a learned table is shorter than ``count``, or the module is of unknown kind.
    """
    first = padding_idx + 1
    if isinstance(embed_positions, nn.Embedding):
        table = embed_positions.weight.detach()
        if first + count > table.size(0):
            raise UsageError(
                "",
                f"the model has learned positions for {table.size(0) - first} tokens, {count} "
                "are asked for",
                "lower --max-len-b",
            )
        return table[first : first + count]
    if embed_positions is None or not hasattr(embed_positions, "get_embedding"):
        raise UsageError("positional embedding of unknown kind", type(embed_positions).__name__)
    module: Any = embed_positions
    table = module.get_embedding(first + count, module.embedding_dim, padding_idx)
    return table[first:]  # type: ignore[no-any-return]


def learned_limit(embed_positions: nn.Module | None, padding_idx: int) -> int | None:
    """How many positions a learned table holds; None where there is no limit."""
    if isinstance(embed_positions, nn.Embedding):
        return embed_positions.num_embeddings - padding_idx - 1
    return None
