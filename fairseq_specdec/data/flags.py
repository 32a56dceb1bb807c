"""The flags of ``specdec-distill``, and what is refused before any model is loaded."""

from __future__ import annotations

import argparse
import os
from typing import Any

from fairseq import options

from ..io.flag_values import AT_LEAST_1, InRange, Range
from .cluster_flags import add_cluster_flags, check_cluster
from .files import DistillError
from .resumable import add_work_flags


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
    group.add_argument(
        "--dest", required=True, metavar="DIR", help="directory of the distilled corpus; required"
    )
    subset = group.add_mutually_exclusive_group()
    subset.add_argument(
        "--limit",
        action=InRange,
        values=AT_LEAST_1,
        metavar="N",
        help="distil a random subset of N sentences, %(values)s, by --seed (default: all)",
    )
    subset.add_argument(
        "--fraction",
        action=InRange,
        values=Range(0, 1, above=True),
        metavar="F",
        help="distil a random share of the sentences, %(values)s, by --seed (default: all)",
    )
    _add_filter_flags(group)
    add_work_flags(group, "sentences", 512)
    add_cluster_flags(group)
    return parser


def _add_filter_flags(group: Any) -> None:
    """Which of the teacher's outputs are kept."""
    group.add_argument(
        "--on-length-limit",
        choices=("drop", "keep"),
        default="drop",
        help="what to do with an output as long as --max-len-a and --max-len-b allow: it was cut "
        "off, most often in a loop, and would teach the student to loop (default: drop)",
    )
    group.add_argument(
        "--max-length-ratio",
        action=InRange,
        values=Range(1),
        metavar="R",
        help="drop a pair whose longer side has more than R times the tokens of the shorter one, "
        "%(values)s (default: keep all)",
    )


def check(args: argparse.Namespace) -> None:
    """Refuse what cannot be honoured, naming the flag."""
    _check_decoding(args)
    check_cluster(args)
    if args.ray and (args.shard or args.merge or int(os.environ.get("WORLD_SIZE", 1)) > 1):
        raise DistillError("--ray: one process hands out all; leave out --shard, --merge, torchrun")
    if not os.path.isdir(args.data or ""):
        raise DistillError(
            f"{args.data}: is no directory; name one directory written by fairseq-preprocess"
        )
    if os.path.realpath(args.dest) == os.path.realpath(args.data):
        raise DistillError("--dest: is the corpus itself; choose another directory")


def _check_decoding(args: argparse.Namespace) -> None:
    """No flag of fairseq-generate that means nothing here."""
    if args.fp16 and args.bf16:
        raise DistillError("--fp16 and --bf16: choose one")
    if getattr(args, "num_shards", 1) > 1 or args.distributed_world_size > 1:
        raise DistillError(
            "--num-shards and --distributed-world-size do not shard this command; use --shard i/n, "
            "torchrun or a Slurm array"
        )
    if getattr(args, "upsample_primary", 1) > 1:
        raise DistillError("--upsample-primary: repeat sentences when you train, not here")
    for name in ("constraints", "replace_unk", "score_reference"):
        if getattr(args, name, None):
            raise DistillError(
                "--{}: has no meaning for distillation; leave it out".format(name.replace("_", "-"))
            )
    if getattr(args, "trace_path", None) is not None:
        raise DistillError(
            "--trace-path: distillation keeps what was decoded, not how; leave it out, and trace "
            "some sentences with fairseq-generate"
        )
