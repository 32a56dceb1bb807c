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
the last process to finish publishes OUT. ``--ray`` hands the chunks to a Ray cluster's workers.

A task with ``--lang-pairs`` distils all of them into one OUT, or the pair that ``--source-lang``
and ``--target-lang`` name.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence
from typing import Any

from fairseq import options

from ..commands.own import brief, load_plugin
from . import cluster
from .flags import get_parser
from .job import Job, load, prepare
from .merge import REPORT, log_counts, merge
from .pairs import PairsJob, of_pair, pairs_of
from .plan import Shard, resolve_shard
from .resumable import resumable_command
from .settings import provenance
from .teacher import decode_chunks

logger = logging.getLogger("fairseq_specdec.data.distill")


def main(args: argparse.Namespace, arguments: Sequence[str] = ()) -> dict[str, Any] | None:
    """Distil, or continue to; the last process to finish publishes the corpus. Returns the report
    written to ``distill.json``, or None while other shards are at work."""
    pairs = pairs_of(args)
    try:
        if pairs:
            return _distill_pairs(args, pairs, arguments)
        return _run(prepare(args), args, arguments)
    finally:
        if args.ray:
            cluster.leave()


def _distill_pairs(
    args: argparse.Namespace, pairs: Sequence[str], arguments: Sequence[str]
) -> dict[str, Any] | None:
    """Distil one pair after the other, and publish them as one corpus."""
    given = {pair: of_pair(args, pair) for pair in pairs}
    jobs = {pair: prepare(each) for pair, each in given.items()}
    joint = PairsJob(os.path.abspath(args.dest), REPORT, {k: job.chunks for k, job in jobs.items()})
    joint.check_destination(args.overwrite)

    def work() -> None:
        for pair, job in jobs.items():
            logger.info("%s: %s", args.data, pair)
            _run(job, given[pair], arguments)

    return joint.run(_shard(args), work, joint.build)


def _run(job: Job, args: argparse.Namespace, arguments: Sequence[str]) -> dict[str, Any] | None:
    shard = _shard(args)

    def work() -> None:
        if args.ray:
            cluster.decode_chunks(job, args, arguments)
        else:
            _distill(job, args, shard, arguments)

    def build(folder: str) -> dict[str, Any]:
        about = {"corpus": job.corpus.directory, "teacher": job.config.common_eval.path}
        impl = job.config.dataset.dataset_impl
        about.update(merge(job.corpus, job.task, impl, job.chunks, folder, job.filters))
        log_counts(job.chunks.destination, about["counts"])
        return about

    return job.chunks.run(shard, None if args.merge else work, build)


def _shard(args: argparse.Namespace) -> Shard:
    return Shard(0, 1) if args.ray else resolve_shard(args.shard, os.environ)


def _distill(job: Job, args: argparse.Namespace, shard: Shard, arguments: Sequence[str]) -> None:
    teacher, dataset, plan = load(job, args)
    job.chunks.agree_on(plan)
    job.chunks.note_run(shard.rank, provenance(arguments, teacher.device_name))
    decode_chunks(teacher, dataset, plan, job.chunks, shard)


def cli_main(arguments: Sequence[str] | None = None) -> None:
    load_plugin()
    with resumable_command("specdec-distill", arguments) as words:
        parser = brief(get_parser(), "specdec-distill")
        main(options.parse_args_and_arch(parser, input_args=words), words)


if __name__ == "__main__":
    cli_main()
