"""The flags of ``specdec-distill``, and what is refused before any model is loaded."""

import argparse
import functools
import os

from fairseq import options

from fairseq_specdec.errors import UsageError

from ..io.flag_values import AT_LEAST_1, Range, add_flag
from .cluster_flags import add_cluster_flags, check_cluster
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
    add_flag(group, "--dest", "directory of the distilled corpus", metavar="DIR", required=True)
    subset = functools.partial(add_flag, group.add_mutually_exclusive_group(), otherwise="all")
    subset("--limit", "distil a random subset of N sentences, by --seed", AT_LEAST_1)
    subset("--fraction", "distil a random share of the sentences, by --seed",
           Range(0, 1, above=True), metavar="F")  # fmt: skip
    add_flag(group, "--on-length-limit", "what to do with an output as long as --max-len-a and "
             "--max-len-b allow: it was cut off, most often in a loop, and would teach the student "
             "to loop", ("drop", "keep"), "drop")  # fmt: skip
    add_flag(group, "--max-length-ratio", "drop a pair whose longer side has more than R times the "
             "tokens of the shorter one", Range(1), metavar="R", otherwise="keep all")  # fmt: skip
    add_work_flags(group, "sentences", 512)
    add_cluster_flags(group)
    return parser


def check(args: argparse.Namespace) -> None:
    """Refuse what cannot be honoured, naming the flag."""
    _check_decoding(args)
    check_cluster(args)
    if args.ray and (args.shard or args.merge or int(os.environ.get("WORLD_SIZE", 1)) > 1):
        raise UsageError(
            "--ray", "one process hands out all", "leave out --shard, --merge, torchrun"
        )
    if not os.path.isdir(args.data or ""):
        raise UsageError(
            args.data, "is no directory", "name one directory written by fairseq-preprocess"
        )
    if os.path.realpath(args.dest) == os.path.realpath(args.data):
        raise UsageError("--dest", "is the corpus itself", "choose another directory")


def _check_decoding(args: argparse.Namespace) -> None:
    """No flag of fairseq-generate that means nothing here."""
    if args.fp16 and args.bf16:
        raise UsageError("--fp16 and --bf16", "choose one")
    if getattr(args, "num_shards", 1) > 1 or args.distributed_world_size > 1:
        raise UsageError(
            "",
            "--num-shards and --distributed-world-size do not shard this command",
            "use --shard i/n, torchrun or a Slurm array",
        )
    if getattr(args, "upsample_primary", 1) > 1:
        raise UsageError("--upsample-primary", "repeat sentences when you train, not here")
    for name in ("constraints", "replace_unk", "score_reference"):
        if getattr(args, name, None):
            raise UsageError(
                "",
                "--{}: has no meaning for distillation; leave it out".format(
                    name.replace("_", "-")
                ),
            )
    if getattr(args, "trace_path", None) is not None:
        raise UsageError(
            "--trace-path",
            "distillation keeps what was decoded, not how",
            "leave it out, and trace some sentences with fairseq-generate",
        )
