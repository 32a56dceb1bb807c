"""Sequence-level knowledge distillation: a teacher rewrites the targets of a binarised corpus.

``specdec-distill DATA --path teacher.pt --dest OUT [any fairseq-generate flag]`` leaves in OUT the
sources of DATA's training split, unchanged and in their order, with the teacher's output as
targets; dictionaries and all other splits are copied. ``fairseq-train OUT`` runs on it at once.

Kim and Rush (2016) introduced it. Ge et al. (2022, sections 3.2.1 and 3.2.2) train drafter and
verifier on such a corpus, Xia et al. (2023, section 4.1) their drafter. The teacher's default is
fairseq-generate's: beam search of width 5, run by this project's engine with the same output.
``--task translation`` runs it by fairseq, for models and flags that the engine refuses.

Work is cut into chunks that are saved whole (``OUT.parts``): kill the command at any time and run
it again. Run it under torchrun, as a Slurm array, or with ``--shard i/n`` in several processes;
the last process to finish publishes OUT.

A task with ``--lang-pairs`` distils all of them into one OUT, or the pair that ``--source-lang``
and ``--target-lang`` name.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from typing import Any, Dict, NamedTuple, Optional, Sequence

from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from ..commands.own import brief
from .corpus import Corpus
from .files import DistillError
from .flags import check, get_parser
from .merge import REPORT, Filters, merge, tell
from .pairs import Pairs, of_pair, pairs_of
from .parts import Parts
from .plan import Shard, make_plan, resolve_shard, select
from .resumable import resumable_command
from .settings import decoding_settings, provenance, teacher_paths
from .teacher import Teacher, decode_chunks

logger = logging.getLogger("fairseq_specdec.data.distill")


class Job(NamedTuple):
    """What the command line asks for, checked against what is on disk."""

    config: Any
    task: Any
    corpus: Corpus
    filters: Filters
    parts: Parts


def prepare(args: argparse.Namespace) -> Job:
    """Check flags, files and earlier results; no model is loaded."""
    check(args)
    config = convert_namespace_to_omegaconf(args)
    if config.dataset.max_tokens is None and config.dataset.batch_size is None:
        config.dataset.max_tokens = 12000  # fairseq-generate's own default
    teacher_paths(config)
    try:
        task = tasks.setup_task(config.task)
    except Exception as error:  # fairseq raises a bare Exception where it finds no languages
        raise DistillError(
            f"{args.data}: {error}; expected a directory written by fairseq-preprocess"
        ) from error
    flags = getattr(task, "cfg", None) or task.args
    corpus = Corpus(args.data, config.dataset.gen_subset, flags.source_lang, flags.target_lang)
    if len(corpus.splits) > 1 and hasattr(flags, "upsample_primary"):
        flags.upsample_primary = 1  # fairseq's default, -1, cannot join train and train1
    filters = Filters(args.on_length_limit, args.max_length_ratio)
    settings = decoding_settings(
        config, corpus, limit=args.limit, fraction=args.fraction, chunk_size=args.chunk_size
    )
    parts = Parts(os.path.abspath(args.dest), REPORT, settings, filters._asdict())
    parts.check_destination(args.overwrite)
    return Job(config, task, corpus, filters, parts)


def main(args: argparse.Namespace, arguments: Sequence[str] = ()) -> Optional[Dict[str, Any]]:
    """Distil, or continue to; the last process to finish publishes the corpus. Returns the report
    written to ``distill.json``, or None while other shards are at work."""
    pairs = pairs_of(args)
    if pairs:
        return _distill_pairs(args, pairs, arguments)
    return _run(prepare(args), args, arguments)


def _distill_pairs(
    args: argparse.Namespace, pairs: Sequence[str], arguments: Sequence[str]
) -> Optional[Dict[str, Any]]:
    """Distil one pair after the other, and publish them as one corpus."""
    given = {pair: of_pair(args, pair) for pair in pairs}
    jobs = {pair: prepare(each) for pair, each in given.items()}
    joint = Pairs(os.path.abspath(args.dest), REPORT, {k: job.parts for k, job in jobs.items()})
    joint.check_destination(args.overwrite)

    def work() -> None:
        for pair, job in jobs.items():
            logger.info("%s: %s", args.data, pair)
            _run(job, given[pair], arguments)

    return joint.run(resolve_shard(args.shard, os.environ), work, joint.build)


def _run(job: Job, args: argparse.Namespace, arguments: Sequence[str]) -> Optional[Dict[str, Any]]:
    shard = resolve_shard(args.shard, os.environ)

    def work() -> None:
        _distill(job, args, shard, arguments)

    def build(folder: str) -> Dict[str, Any]:
        about = {"corpus": job.corpus.directory, "teacher": job.config.common_eval.path}
        impl = job.config.dataset.dataset_impl
        about.update(merge(job.corpus, job.task, impl, job.parts, folder, job.filters))
        tell(job.parts.destination, about["counts"])
        return about

    return job.parts.run(shard, None if args.merge else work, build)


def _distill(job: Job, args: argparse.Namespace, shard: Shard, arguments: Sequence[str]) -> None:
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
    job.parts.agree_on(plan)
    job.parts.note_run(shard.rank, provenance(arguments, teacher.device_name))
    decode_chunks(teacher, dataset, plan, job.parts, shard)


def _only_part(dataset: Any) -> Any:
    """What a multilingual task's dataset of one pair joins."""
    parts = getattr(dataset, "datasets", ())
    return parts[0] if len(parts) == 1 else dataset


def cli_main(arguments: Optional[Sequence[str]] = None) -> None:
    words = list(sys.argv[1:] if arguments is None else arguments)
    with resumable_command("specdec-distill", words):
        parser = brief(get_parser(), "specdec-distill")
        main(options.parse_args_and_arch(parser, input_args=words), words)


if __name__ == "__main__":
    cli_main()
