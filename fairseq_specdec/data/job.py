"""A distillation, checked and loaded: the same in one process and in every worker of a cluster."""

import argparse
import os
from typing import Any, NamedTuple

from fairseq import tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from .chunks import DistilledChunks
from .corpus import Corpus
from .flags import check
from .folder import data_named
from .merge import REPORT, Filters
from .plan import Plan, make_plan, select
from .settings import decoding_settings, teacher_paths
from .teacher import Teacher


class Job(NamedTuple):
    """What the command line asks for, checked against what is on disk."""

    config: Any
    task: Any
    corpus: Corpus
    filters: Filters
    chunks: DistilledChunks


def prepare(args: argparse.Namespace) -> Job:
    """Check flags, files and earlier results; no model is loaded."""
    job = job_of(args)
    job.chunks.check_destination(args.overwrite)
    return job


def job_of(args: argparse.Namespace) -> Job:
    """Check flags and files."""
    check(args)
    config = convert_namespace_to_omegaconf(args)
    if config.dataset.max_tokens is None and config.dataset.batch_size is None:
        config.dataset.max_tokens = 12000  # fairseq-generate's own default
    teacher_paths(config)
    with data_named(args.data):
        task = tasks.setup_task(config.task)
    flags = getattr(task, "cfg", None) or task.args
    corpus = Corpus(args.data, config.dataset.gen_subset, flags.source_lang, flags.target_lang)
    if len(corpus.splits) > 1 and hasattr(flags, "upsample_primary"):
        flags.upsample_primary = 1  # fairseq's default, -1, cannot join train and train1
    filters = Filters(args.on_length_limit, args.max_length_ratio)
    settings = decoding_settings(
        config, corpus, limit=args.limit, fraction=args.fraction, chunk_size=args.chunk_size
    )
    chunks = DistilledChunks(os.path.abspath(args.dest), REPORT, settings, filters._asdict())
    return Job(config, task, corpus, filters, chunks)


def load(job: Job, args: argparse.Namespace) -> tuple[Teacher, Any, Plan]:
    """The teacher, the corpus, and which of its sentences are decoded together."""
    teacher = Teacher(job.config, job.task)
    split, batching = job.config.dataset.gen_subset, job.config.dataset
    job.task.load_dataset(split, combine=True, task_cfg=teacher.saved.task)
    dataset = _only_part(job.task.dataset(split))
    seed = int(job.config.common.seed)
    plan = make_plan(
        job.task,
        dataset,
        select(len(dataset), args.limit, args.fraction, seed),
        teacher.source_limit(),
        args.chunk_size,
        max_tokens=batching.max_tokens,
        max_sentences=batching.batch_size,
        required_batch_size_multiple=batching.required_batch_size_multiple,
        seed=seed,
    )
    return teacher, dataset, plan


def _only_part(dataset: Any) -> Any:
    """What a multilingual task's dataset of one pair joins."""
    parts = getattr(dataset, "datasets", ())
    return parts[0] if len(parts) == 1 else dataset
