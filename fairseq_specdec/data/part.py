"""The corpus of one pair of languages: what its distillation depends on, and what is decoded."""

from __future__ import annotations

import argparse
import os
from typing import Any

from fairseq import tasks, utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import TASK_REGISTRY

from ..io.flag_values import flag_of
from ..io.provenance import digest_of, sha256
from .corpus import Corpus
from .folder import data_named
from .plan import Plan, make_plan, select
from .teacher import Teacher

# Besides the flags of the task and of decoding, what the teacher's output depends on.
_OTHERS = {
    "task", "source_lang", "target_lang", "path", "model_overrides", "max_tokens", "batch_size",
    "required_batch_size_multiple", "gen_subset", "seed", "fp16", "bf16", "limit", "fraction",
    "chunk_size",
}  # fmt: skip


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
        flags = getattr(self.task, "cfg", None) or self.task.args
        split = config.dataset.gen_subset
        self.corpus = Corpus(args.data, split, flags.source_lang, flags.target_lang)
        if hasattr(flags, "upsample_primary"):
            flags.upsample_primary = 1  # fairseq's default, -1, cannot join train and train1
        parser = argparse.ArgumentParser()
        TASK_REGISTRY[args.task].add_args(parser)
        names = {*_OTHERS, *GenerationConfig.__dataclass_fields__}
        names |= {each.dest for each in parser._actions}
        given = {
            **vars(args),
            "source_lang": self.corpus.source,
            "target_lang": self.corpus.target,
            "path": utils.split_paths(args.path),
        }
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
        args, config, batching = self.args, self.config, self.config.dataset
        teacher = Teacher(config, self.task)
        self.task.load_dataset(batching.gen_subset, combine=True, task_cfg=teacher.saved.task)
        dataset = self.task.dataset(batching.gen_subset)
        parts = list(getattr(dataset, "datasets", ()))  # what a multilingual task's one pair joins
        dataset = parts[0] if len(parts) == 1 else dataset
        seed = int(config.common.seed)
        self.plan = make_plan(
            self.task,
            dataset,
            select(len(dataset), args.limit, args.fraction, seed),
            teacher.source_limit(),
            args.chunk_size,
            max_tokens=batching.max_tokens,
            max_sentences=batching.batch_size,
            required_batch_size_multiple=batching.required_batch_size_multiple,
            seed=seed,
        )
        return teacher, dataset

    def file(self, chunk: int) -> str:
        """The file of a chunk. Its name has a digest of its sentences: one that was cut otherwise
        is another."""
        pair = self.pair and self.pair + "-"
        return f"chunk-{pair}{chunk:06d}-{self.plan.digest(chunk):08x}.npz"


def _plain(value: Any) -> Any:
    """A JSON-serialisable twin of a flag's value; a file's name becomes its SHA-256."""
    if isinstance(value, str) and os.path.isfile(value):
        return "sha256:" + sha256(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (bool, int, float, dict, type(None))) else str(value)
