"""Who decodes what: the sentences, their batches, the chunks that are saved at once, the shards."""

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from fairseq.data import BaseWrapperDataset

from fairseq_specdec.errors import UsageError

# Why a sentence of the corpus is not in the distilled corpus. The position is the stored code.
REASONS = (
    "kept",
    "source_too_long",  # longer than --max-source-positions or than the teacher's positions
    "exceeds_max_tokens",  # source or original target alone is longer than --max-tokens
    "empty_source",  # nothing but </s>
    "no_hypothesis",  # the generator returned none
    "empty_target",  # the output is </s> alone
    "length_limit",  # the teacher was cut off at --max-len-a * source + --max-len-b
    "length_ratio",  # longer side over shorter side is above --max-length-ratio
)
CODE = {reason: code for code, reason in enumerate(REASONS)}


class Shard(NamedTuple):
    """Part ``rank`` (from 0) of ``world`` equal parts."""

    rank: int
    world: int


def resolve_shard(flag: str | None, environment: Mapping[str, str]) -> Shard:
    """Which shard this process is: ``--shard i/n``, else torchrun and the Slurm array, else 0/1.

    Under torchrun within a Slurm array both count: the array element's processes are its parts.

    Args:
        flag: ``"i/n"`` with ``0 <= i < n``, or None.
        environment: read are RANK and WORLD_SIZE, SLURM_ARRAY_TASK_ID, _COUNT, _MIN and _STEP.
    """
    if flag is not None:
        match = re.fullmatch(r"(\d+)/(\d+)", flag)
        if match is None or int(match.group(1)) >= int(match.group(2)):
            raise UsageError(
                f"--shard {flag}", "expected i/n with i counted from 0, e.g. 0/4 to 3/4"
            )
        return Shard(int(match.group(1)), int(match.group(2)))
    rank, count = int(environment.get("RANK", 0)), int(environment.get("WORLD_SIZE", 1))
    if "SLURM_ARRAY_TASK_ID" in environment and "SLURM_ARRAY_TASK_COUNT" in environment:
        offset = int(environment["SLURM_ARRAY_TASK_ID"]) - int(
            environment.get("SLURM_ARRAY_TASK_MIN", 0)
        )
        step = max(int(environment.get("SLURM_ARRAY_TASK_STEP", 1)), 1)
        elements = int(environment["SLURM_ARRAY_TASK_COUNT"])
        if offset % step or not 0 <= offset // step < elements:
            raise UsageError(
                "",
                "SLURM_ARRAY_TASK_ID={}: the array's ids are not evenly spaced, so its place among "
                "{} is unknown; say it by --shard i/n".format(
                    environment["SLURM_ARRAY_TASK_ID"], elements
                ),
            )
        rank, count = offset // step * count + rank, elements * count
    return Shard(rank, count)


def select(total: int, limit: int | None, fraction: float | None, seed: int) -> np.ndarray:
    """A reproducible random subset; that of a smaller limit is part of that of a larger one.
    Returns bool [total]: which sentences to distil."""
    wanted = total
    if limit is not None:
        wanted = min(limit, total)
    elif fraction is not None:
        wanted = min(math.ceil(fraction * total), total)
    mask = np.zeros(total, dtype=bool)
    mask[np.random.RandomState(seed).permutation(total)[:wanted]] = True
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


class Plan(NamedTuple):
    """All the work, the same in every process whatever the number of shards.

    A chunk is a run of batches that is saved at once; it belongs to shard ``chunk % world``.
    """

    order: np.ndarray  # int64 [N]: corpus indices, batch after batch
    batch_ends: np.ndarray  # int64 [batches]: where each batch ends in ``order``
    chunk_ends: np.ndarray  # int64 [chunks]: where each chunk ends in ``batch_ends``
    left_out: np.ndarray  # int64 [D]: corpus indices that are not decoded
    left_out_codes: np.ndarray  # int8 [D]: positions in REASONS
    total: int  # sentences in the corpus

    def batches(self, chunk: int) -> list[list[int]]:
        """The corpus indices of each batch of a chunk."""
        first = int(self.chunk_ends[chunk - 1]) if chunk else 0
        starts = np.concatenate([[0], self.batch_ends])
        return [
            self.order[starts[batch] : starts[batch + 1]].tolist()
            for batch in range(first, int(self.chunk_ends[chunk]))
        ]

    def indices(self, chunk: int) -> np.ndarray:
        """int64: the corpus indices of a chunk, in decoding order."""
        bounds = np.concatenate([[0], self.batch_ends])[np.concatenate([[0], self.chunk_ends])]
        return self.order[bounds[chunk] : bounds[chunk + 1]]

    def chunks_of(self, shard: Shard) -> list[int]:
        """The chunks that a shard decodes."""
        return list(range(shard.rank, len(self.chunk_ends), shard.world))

    def arrays(self) -> dict[str, Any]:
        """The plan as named arrays, to be saved."""
        return {name: np.asarray(value) for name, value in self._asdict().items()}


def plan_from(arrays: Mapping[str, np.ndarray]) -> Plan:
    """The inverse of :meth:`Plan.arrays`."""
    values = {name: arrays[name] for name in Plan._fields if name != "total"}
    return Plan(total=int(arrays["total"]), **values)


def group(batch_sizes: np.ndarray, chunk_size: int) -> np.ndarray:
    """Cut a run of batches into chunks of at least ``chunk_size`` sentences (the last may be less).
    Returns int64 [chunks]: where each chunk ends among the batches."""
    ends, held = [], 0
    for batch, size in enumerate(batch_sizes.tolist()):
        held += size
        if held >= chunk_size:
            ends.append(batch + 1)
            held = 0
    if held:
        ends.append(len(batch_sizes))
    return np.array(ends, dtype=np.int64)


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
        chunk_size: sentences to save at once.
        batching: ``max_tokens``, ``max_sentences``, ``required_batch_size_multiple``, ``seed``.
    """
    everything = np.arange(len(dataset), dtype=np.int64)
    codes = np.zeros(len(dataset), dtype=np.int8)
    max_tokens = batching.get("max_tokens")
    if max_tokens is not None:
        codes[_num_tokens(dataset, everything) > max_tokens] = CODE["exceeds_max_tokens"]
    if source_limit is not None:
        codes[np.asarray(dataset.src_sizes) > source_limit] = CODE["source_too_long"]
    left_out = everything[chosen & (codes != 0)]
    expected = everything[chosen & (codes == 0)]
    if not len(expected):
        raise UsageError(
            "no sentence is left to distil",
            f"{len(dataset)} in the corpus, {int(chosen.sum())} chosen by --limit or "
            f"--fraction, {len(left_out)} of them too long for --max-source-positions or "
            "--max-tokens",
        )
    view = _Selected(dataset, chosen & (codes == 0))
    batches = task.get_batch_iterator(dataset=view, max_positions=None, **batching).frozen_batches
    sizes = np.array([len(batch) for batch in batches], dtype=np.int64)
    order = np.array([index for batch in batches for index in batch], dtype=np.int64)
    _check_same(order, expected)
    return Plan(
        order, np.cumsum(sizes), group(sizes, chunk_size), left_out, codes[left_out], len(dataset)
    )


def _num_tokens(dataset: Any, indices: np.ndarray) -> np.ndarray:
    try:
        return np.asarray(dataset.num_tokens_vec(indices))
    except NotImplementedError:
        return np.array([dataset.num_tokens(index) for index in indices])


def _check_same(order: np.ndarray, expected: np.ndarray) -> None:
    lost, extra = missing_and_doubled(order, expected)
    if len(lost) or len(extra):
        raise UsageError(
            f"fairseq's batching lost {len(lost)} and doubled {len(extra)} of {len(expected)} "
            "sentences (first lost",
            f"{lost[:5].tolist()})",
            "import fairseq_specdec.tasks before anything else: it patches batch_by_size",
        )


def missing_and_doubled(seen: np.ndarray, expected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which expected indices were not seen, and which were seen twice or were not expected."""
    values, counts = np.unique(seen, return_counts=True)
    extra = np.union1d(values[counts > 1], np.setdiff1d(values, expected))
    return np.setdiff1d(expected, values), extra
