"""Which sentences are decoded together."""

from __future__ import annotations

from typing import List, Sequence


def by_length(lengths: Sequence[int], batch_size: int, max_tokens: int) -> List[List[int]]:
    """Batches of similar length, longest first, so that memory fails early if it must.

    Args:
        lengths: tokens of each sentence; those of 0 are in no batch.
        batch_size: most sentences of a batch.
        max_tokens: most tokens of a batch, padding included; a longer sentence goes alone.

    Returns:
        Indices of the sentences of each batch.
    """
    batches: List[List[int]] = []
    for i in sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i]):
        last = batches[-1] if batches else []
        fits = last and lengths[last[0]] * (len(last) + 1) <= max_tokens
        if fits and len(last) < batch_size:
            last.append(i)
        else:
            batches.append([i])
    return batches
