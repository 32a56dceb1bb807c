"""The corpus of one pair of languages: what its distillation depends on, and what is decoded."""

from __future__ import annotations

import argparse
import os
import zlib
from typing import Any, NamedTuple

import numpy as np
from fairseq import tasks, utils
from fairseq.data import BaseWrapperDataset
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import TASK_REGISTRY

from fairseq_specdec.errors import UsageError

from ..io.flag_values import flag_of
from ..io.provenance import digest_of, sha256
from .corpus import Corpus
from .folder import data_named
from .teacher import Batches, Teacher

# Besides the flags of the task and of decoding, what the teacher's output depends on.
_OTHERS = {
    "task", "source_lang", "target_lang", "path", "model_overrides", "max_tokens", "batch_size",
    "required_batch_size_multiple", "gen_subset", "seed", "fp16", "bf16", "limit", "chunk_size",
}  # fmt: skip


class Plan(NamedTuple):
    """All the work on a corpus, the same in every process whatever the number of shards."""

    chunks: list[Batches]
    dropped: dict[int, str]  # why a sentence of the corpus is not decoded
    total: int  # sentences in the corpus

    def size(self, chunk: int) -> int:
        """Sentences of a chunk."""
        return sum(map(len, self.chunks[chunk]))


class Part:
    """The corpus of one pair of languages, checked against what is on disk; no model is loaded.

    Args:
        pair: as ``en-de``, where one of several is distilled.

    Attributes:
        settings: everything that the teacher's output depends on, by the flag or file that sets it.
            Files (teacher, drafter, corpus) count by their contents, so moving them changes
            nothing.
        plan: what is decoded; made by :meth:`load`, or elsewhere on a cluster.
    """

    plan: Plan

    def __init__(self, args: argparse.Namespace, pair: str = "") -> None:
        self.args, self.pair = args, pair
        if args.max_tokens is None and args.batch_size is None:
            args.max_tokens = 12000  # fairseq-generate's own default
        self.config = config = convert_namespace_to_omegaconf(args)
        with data_named(args.data):
            self.task = tasks.setup_task(config.task)
        self.corpus = Corpus(args.data, config.dataset.gen_subset, self.task)
        flags = getattr(self.task, "cfg", None) or self.task.args
        if hasattr(flags, "upsample_primary"):
            flags.upsample_primary = 1  # fairseq's default, -1, cannot join train and train1
        parser = argparse.ArgumentParser()
        TASK_REGISTRY[args.task].add_args(parser)
        names = {*_OTHERS, *GenerationConfig.__dataclass_fields__}
        names |= {each.dest for each in parser._actions}
        languages = {"source_lang": self.corpus.source, "target_lang": self.corpus.target}
        given = {**vars(args), **languages, "path": utils.split_paths(args.path)}
        self.settings = {
            flag_of(name): _plain(value)
            for name, value in given.items()
            # those change no output
            if name in names and not name.startswith(("data", "eval_", "print_", "trace_"))
        }
        files = self.corpus.fingerprint().items()
        self.settings.update({"DATA/" + name: value for name, value in files})
        self.digest = digest_of(self.settings)

    def load(self) -> tuple[Teacher, Any]:
        """The teacher and the corpus; makes the plan."""
        config, batching = self.config, self.config.dataset
        teacher = Teacher(config, self.task)
        self.task.load_dataset(batching.gen_subset, combine=True, task_cfg=teacher.saved.task)
        dataset = self.task.dataset(batching.gen_subset)
        parts = list(getattr(dataset, "datasets", ()))  # what a multilingual task's one pair joins
        dataset = parts[0] if len(parts) == 1 else dataset
        self.plan = make_plan(
            self.task,
            dataset,
            teacher.source_limit(),
            self.args.limit,
            self.args.chunk_size,
            max_tokens=batching.max_tokens,
            max_sentences=batching.batch_size,
            required_batch_size_multiple=batching.required_batch_size_multiple,
            seed=int(config.common.seed),
        )
        return teacher, dataset

    def file(self, chunk: int) -> str:
        """The file of a chunk. Its name has a digest of its sentences and batches, which another
        version of fairseq or numpy may cut otherwise."""
        pair = self.pair and self.pair + "-"
        digest = zlib.crc32(repr(self.plan.chunks[chunk]).encode("ascii"))
        return f"chunk-{pair}{chunk:06d}-{digest:08x}.npz"


def _plain(value: Any) -> Any:
    """A JSON-serialisable twin of a flag's value; a file's name becomes its SHA-256."""
    if isinstance(value, str) and os.path.isfile(value):
        return "sha256:" + sha256(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (bool, int, float, dict, type(None))) else str(value)


class _Selected(BaseWrapperDataset):  # type: ignore[misc]
    """A dataset of which some sentences are decoded, by a mask."""

    def __init__(self, dataset: Any, mask: np.ndarray) -> None:
        super().__init__(dataset)
        self.mask = mask

    def ordered_indices(self) -> np.ndarray:
        indices: np.ndarray = self.dataset.ordered_indices()
        kept: np.ndarray = indices[self.mask[indices]]
        return kept


def make_plan(
    task: Any,
    dataset: Any,
    source_limit: int | None,
    limit: int | None,
    chunk_size: int,
    **batching: Any,
) -> Plan:
    """Cut a dataset into exactly the batches that ``fairseq-generate`` would decode.

    The same batches matter: fairseq's ``max_len_a`` uses the padded source width, and sums round
    differently in another batch.

    Args:
        task: the fairseq task; its ``get_batch_iterator`` cuts the batches.
        source_limit: longest source that the teacher can read, in tokens with </s>.
        limit: sentences of a reproducible random subset, of which those of a smaller limit are a
            part; None for all.
        chunk_size: sentences to save at once, at least; the last chunk may have less.
        batching: ``max_tokens``, ``max_sentences``, ``required_batch_size_multiple``, ``seed``.
    """
    total, most_tokens = len(dataset), batching.get("max_tokens")
    chosen = np.random.RandomState(batching["seed"]).permutation(total)[:limit]
    dropped = {}
    for index in chosen.tolist():
        if source_limit is not None and dataset.src_sizes[index] > source_limit:
            dropped[index] = "source_too_long"
        elif most_tokens and dataset.num_tokens(index) > most_tokens:
            dropped[index] = "exceeds_max_tokens"
    wanted = np.zeros(total, dtype=bool)
    wanted[chosen] = True
    wanted[list(dropped)] = False
    if not wanted.any():
        raise UsageError(
            "no sentence is left to distil",
            f"{total} in the corpus, {len(chosen)} chosen by --limit, {len(dropped)} of them too "
            "long for --max-source-positions or --max-tokens",
        )
    view = _Selected(dataset, wanted)
    chunks: list[Batches] = [[]]
    for batch in task.get_batch_iterator(dataset=view, **batching).frozen_batches:
        if sum(map(len, chunks[-1])) >= chunk_size:
            chunks.append([])
        chunks[-1].append(list(map(int, batch)))
    return Plan(chunks, dropped, total)
