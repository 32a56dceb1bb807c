"""The rows of a position table (pure functions)."""

from typing import Any

from torch import Tensor, nn

from fairseq_specdec.errors import UsageError


def position_rows(embed_positions: Any, padding_idx: int, count: int) -> Tensor:
    """The embeddings of positions 0 .. count-1.

    fairseq counts positions from ``padding_idx + 1``. Its sinusoidal module ignores the
    ``positions`` argument and its learned module asserts on it, so the table is indexed here.

    Args:
        embed_positions: fairseq's learned or sinusoidal positional embedding.

    Returns:
        Float tensor of shape [count, C].

    Raises:
        UsageError: a learned table is shorter than ``count``.
    """
    first, limit = padding_idx + 1, learned_limit(embed_positions, padding_idx)
    if limit is None:
        table = embed_positions.get_embedding(
            first + count, embed_positions.embedding_dim, padding_idx
        )
    elif count <= limit:
        table = embed_positions.weight.detach()
    else:
        raise UsageError(
            "",
            f"the model has learned positions for {limit} tokens, {count} are asked for",
            "lower --max-len-b",
        )
    rows: Tensor = table[first : first + count]
    return rows


def learned_limit(embed_positions: nn.Module | None, padding_idx: int) -> int | None:
    """How many positions a learned table holds; None where there is no limit."""
    if isinstance(embed_positions, nn.Embedding):
        return embed_positions.num_embeddings - padding_idx - 1
    return None
