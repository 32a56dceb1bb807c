"""The corpus of one pair of languages: what its distillation depends on, and what is decoded."""

from __future__ import annotations

import argparse
import os
from typing import Any

from fairseq import tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import TASK_REGISTRY
from omegaconf import OmegaConf

from ..io.provenance import digest_of, sha256
from .corpus import Corpus
from .folder import data_named
from .plan import Plan, make_plan, select
from .teacher import Teacher, teacher_paths


class Part:
    """The corpus of one pair of languages, checked against what is on disk; no model is loaded.

    Args:
        pair: as ``en-de``, where one of several is distilled.

    Attributes:
        plan: what is decoded; made by :meth:`load`, or elsewhere on a cluster.
    """

    plan: Plan

    def __init__(self, args: argparse.Namespace, pair: str = "") -> None:
        self.args, self.pair = args, pair
        self.config = config = convert_namespace_to_omegaconf(args)
        if config.dataset.max_tokens is None and config.dataset.batch_size is None:
            config.dataset.max_tokens = 12000  # fairseq-generate's own default
        teacher_paths(config)
        with data_named(args.data):
            self.task = tasks.setup_task(config.task)
        flags = getattr(self.task, "cfg", None) or self.task.args
        split = config.dataset.gen_subset
        self.corpus = Corpus(args.data, split, flags.source_lang, flags.target_lang)
        if len(self.corpus.splits) > 1 and hasattr(flags, "upsample_primary"):
            flags.upsample_primary = 1  # fairseq's default, -1, cannot join train and train1
        self.settings = self._settings()
        self.digest = digest_of(self.settings)

    def _settings(self) -> dict[str, Any]:
        """Everything that the teacher's output depends on, flat, by the flag or file that sets it.

        Files (teacher, drafter, corpus) are recorded by their contents, so moving them changes
        nothing.
        """
        config, args = self.config, self.args
        task = _task_fields(config.task)
        generation: Any = OmegaConf.to_container(config.generation, resolve=True)
        named = {
            name: value
            for name, value in {**task, **generation}.items()
            # those change no output
            if name not in ("data", "_name") and not name.startswith(("eval_", "print_", "trace_"))
        }
        for name in ("max_tokens", "batch_size", "required_batch_size_multiple", "gen_subset"):
            named[name] = config.dataset[name]
        for name in ("seed", "fp16", "bf16"):
            named[name] = config.common[name]
        named.update(
            task=task.get("_name", task.get("task")),
            model_overrides=config.common_eval.model_overrides, path=teacher_paths(config),
            source_lang=self.corpus.source, target_lang=self.corpus.target,
            limit=args.limit, fraction=args.fraction, chunk_size=args.chunk_size,
        )  # fmt: skip
        settings = {"--" + name.replace("_", "-"): _plain(value) for name, value in named.items()}
        files = self.corpus.fingerprint().items()
        return {**settings, **{"DATA/" + name: value for name, value in files}}

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
    """A JSON-serialisable twin of a configuration value; a file's name becomes its SHA-256."""
    if isinstance(value, str) and os.path.isfile(value):
        return "sha256:" + sha256(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str, dict)):
        return value
    return str(value)


def _task_fields(task: Any) -> dict[str, Any]:
    """A task's settings. Older tasks have no configuration: theirs are the command line's, of which
    those are taken that the task has added."""
    if OmegaConf.is_config(task):
        fields: Any = OmegaConf.to_container(task, resolve=True)
        return dict(fields)
    parser = argparse.ArgumentParser()
    TASK_REGISTRY[task.task].add_args(parser)
    own = {"task", *(action.dest for action in parser._actions)}
    return {name: value for name, value in vars(task).items() if name in own}
