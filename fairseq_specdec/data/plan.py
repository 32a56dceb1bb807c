"""Which sentences the teacher decodes, in which batches, and which of them are saved at once."""

import math
import zlib
from typing import Any, NamedTuple

import numpy as np
from fairseq.data import BaseWrapperDataset

from fairseq_specdec.errors import UsageError

# Why a sentence is not in the distilled corpus, as it follows "N".
REASONS = {
    "source_too_long": "sources longer than the teacher can read",
    "exceeds_max_tokens": "longer than --max-tokens",
    "empty_source": "empty sources",
    "no_hypothesis": "without an output",
    "empty_target": "with an empty output",
    "length_limit": "outputs cut off at the length limit (--max-len-a, --max-len-b)",
    "length_ratio": "outputs of another length than --max-length-ratio allows",
}


def select(total: int, limit: int | None, fraction: float | None, seed: int) -> np.ndarray:
    """A reproducible random subset; that of a smaller limit is part of that of a larger one.
    Returns bool [total]: which sentences to distil."""
    if fraction is not None:
        limit = math.ceil(fraction * total)
    mask = np.zeros(total, dtype=bool)
    mask[np.random.RandomState(seed).permutation(total)[:limit]] = True
    return mask


class _Selected(BaseWrapperDataset):  # type: ignore[misc]
    """A dataset whose order of decoding passes over some sentences."""

    def __init__(self, dataset: Any, mask: np.ndarray) -> None:
        super().__init__(dataset)
        self.mask = mask

    def ordered_indices(self) -> np.ndarray:
        indices: np.ndarray = self.dataset.ordered_indices()
        kept: np.ndarray = indices[self.mask[indices]]
        return kept


Batches = list[list[int]]
"""The corpus indices of each batch of a chunk."""


class Plan(NamedTuple):
    """All the work on a corpus, the same in every process whatever the number of shards."""

    chunks: list[Batches]
    dropped: dict[int, str]  # why a sentence of the corpus is not decoded
    total: int  # sentences in the corpus

    def size(self, chunk: int) -> int:
        """Sentences of a chunk."""
        return sum(map(len, self.chunks[chunk]))

    def digest(self, chunk: int) -> int:
        """Of the sentences of a chunk and their batches: another version of fairseq or numpy may
        cut them otherwise."""
        return zlib.crc32(repr(self.chunks[chunk]).encode("ascii"))


def make_plan(
    task: Any,
    dataset: Any,
    chosen: np.ndarray,
    source_limit: int | None,
    chunk_size: int,
    **batching: Any,
) -> Plan:
    """Cut a dataset into exactly the batches that ``fairseq-generate`` would decode.

    The same batches matter: fairseq's ``max_len_a`` uses the padded source width, and sums round
    differently in another batch.

    Args:
        task: the fairseq task; its ``get_batch_iterator`` cuts the batches.
        chosen: bool [len(dataset)].
        source_limit: longest source that the teacher can read, in tokens with </s>.
        chunk_size: sentences to save at once, at least; the last chunk may have less.
        batching: ``max_tokens``, ``max_sentences``, ``required_batch_size_multiple``, ``seed``.
    """
    wanted, dropped = chosen.copy(), {}
    for index in np.flatnonzero(chosen).tolist():
        if source_limit is not None and dataset.src_sizes[index] > source_limit:
            dropped[index] = "source_too_long"
        elif batching.get("max_tokens") and dataset.num_tokens(index) > batching["max_tokens"]:
            dropped[index] = "exceeds_max_tokens"
    wanted[list(dropped)] = False
    if not wanted.any():
        raise UsageError(
            "no sentence is left to distil",
            f"{len(dataset)} in the corpus, {int(chosen.sum())} chosen by --limit or "
            f"--fraction, {len(dropped)} of them too long for --max-source-positions or "
            "--max-tokens",
        )
    view = _Selected(dataset, wanted)
    batches = task.get_batch_iterator(dataset=view, max_positions=None, **batching).frozen_batches
    chunks: list[Batches] = []
    held = chunk_size
    for batch in batches:
        if held >= chunk_size:
            chunks.append([])
            held = 0
        chunks[-1].append([int(index) for index in batch])
        held += len(batch)
    return Plan(chunks, dropped, len(dataset))
