"""Sequence-level knowledge distillation: a teacher rewrites the targets of a binarised corpus.

``specdec-distill DATA --path teacher.pt --dest OUT [any fairseq-generate flag]`` leaves in OUT the
sources of DATA's training split, unchanged and in their order, with the teacher's output as
targets; dictionaries and all other splits are copied. ``fairseq-train OUT`` runs on it at once.

Kim and Rush (2016) introduced it. Ge et al. (2022, sections 3.2.1 and 3.2.2) train drafter and
verifier on such a corpus, Xia et al. (2023, section 4.1) their drafter.
"""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Sequence
from typing import Any

from fairseq import options

from fairseq_specdec.errors import UsageError

from ..commands.own import brief, load_plugin, log_to_stderr, reporting
from ..io.flag_values import AT_LEAST_1, add_flag, flag_of
from . import cluster
from .work import Distillation, resolve_shard


def get_parser() -> argparse.ArgumentParser:
    """fairseq-generate's flags and this command's own."""
    parser: argparse.ArgumentParser = options.get_generation_parser(
        default_task="translation_specdec"
    )
    parser.set_defaults(gen_subset="train")
    parser.prog = "specdec-distill"
    parser.description = (
        "Let a trained model or ensemble rewrite the training targets of a binarised corpus "
        "(sequence-level knowledge distillation)."
    )
    group = parser.add_argument_group("Sequence-level distillation")
    add = functools.partial(add_flag, group)
    add("--dest", "directory of the distilled corpus", metavar="DIR", required=True)
    add("--limit", "distil a random subset of N sentences, by --seed", AT_LEAST_1, otherwise="all")
    add("--on-length-limit", "what to do with an output as long as --max-len-a and --max-len-b "
        "allow: it was cut off, most often in a loop, and would teach the student to loop",
        ("drop", "keep"), "drop")  # fmt: skip
    add("--chunk-size", "sentences that are saved at once; a kill loses at most so many per "
        "process", AT_LEAST_1, 512)  # fmt: skip
    add("--shard", "be process I (from 0) of N", metavar="I/N",
        otherwise="as torchrun or a Slurm array says, else alone")  # fmt: skip
    cluster.add_cluster_flags(group)
    return parser


def main(args: argparse.Namespace, words: Sequence[str] = ()) -> dict[str, Any] | None:
    """Distil, or continue to; the last process to finish publishes the corpus. Returns the report
    written to ``distill.json``, or None while other shards are at work."""
    cluster.check_cluster(args)
    for name in ("constraints", "lm_path", "replace_unk", "score_reference", "trace_path"):
        if getattr(args, name, None):
            raise UsageError(flag_of(name), "has no meaning for distillation", "leave it out")
    if not args.path:
        raise UsageError("--path", "missing", "name the teacher, or several joined by ':'")
    if args.ray and (args.shard or "WORLD_SIZE" in os.environ):
        raise UsageError("--ray", "one process hands out all", "leave out --shard, torchrun")
    if os.path.realpath(args.dest) == os.path.realpath(args.data):
        raise UsageError("--dest", "is the corpus itself", "choose another directory")
    job = Distillation(args)
    if args.ray:
        return job.run(lambda: cluster.decode(job, args), words)
    shard = resolve_shard(args.shard, os.environ)
    return job.run(lambda: job.decode(shard), words)


def cli_main(arguments: Sequence[str] | None = None) -> None:
    load_plugin()
    log_to_stderr("%(asctime)s | %(levelname)s | %(name)s | %(message)s")
    saved = "finished chunks are kept in DEST.parts; go on with"
    with reporting("specdec-distill", arguments, saved) as words:
        parser = brief(get_parser(), "specdec-distill")
        main(options.parse_args_and_arch(parser, input_args=words), words)


if __name__ == "__main__":
    cli_main()
