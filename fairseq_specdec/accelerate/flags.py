"""The flags of ``specdec-accelerate``, and those that make no sense."""

import argparse
import functools
from collections.abc import Callable
from typing import Any

from fairseq_specdec.errors import UsageError

from ..commands.own import command_parser
from ..data.cluster import add_cluster_flags, check_cluster
from ..io.flag_values import AT_LEAST_1, Range, add_flag, add_languages, numbers

# Default of --hours where --updates is not given.
HOURS = 2.0


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "specdec-accelerate",
        "From a verifier's checkpoint and its training data to a drafter, a report "
        "(OUT/report.html) and the command to decode with. Stop it at any time: the same command "
        "goes on.",
    )
    add = functools.partial(add_flag, parser)
    parser.add_argument(
        "data", help="folder that fairseq-preprocess wrote (train and valid), or with --trainpref "
        "the folder that holds the verifier's dict.*.txt, such as specdec-convert hf writes"
    )  # fmt: skip
    add("--path", "the verifier's checkpoint", metavar="FILE",
        otherwise="verifier.pt of a DATA that specdec-convert hf wrote")  # fmt: skip
    add("--out", "where drafter.pt, report.html and everything else is written", metavar="FOLDER",
        required=True)  # fmt: skip
    add_languages(parser)
    add("--lang-pairs", "of a multilingual verifier: pairs that its drafter is trained for and "
        "measured with", metavar="SRC-TGT,...", otherwise="those of its training")  # fmt: skip
    for split in ("train", "valid"):
        add(f"--{split}pref", f"text PREFIX.SOURCE, or parallel with PREFIX.TARGET, for {split}, "
            "in the verifier's subwords (of a model that specdec-convert hf wrote plain, sources "
            "alone); --trainpref and --validpref together", metavar="PREFIX",
            otherwise="DATA is binarised")  # fmt: skip
    _add_limits(add)
    add_cluster_flags(parser)
    return parser


def _add_limits(add: Callable[..., Any]) -> None:
    """How long, how much and where."""
    add("--hours", "time for everything", Range(0, above=True), metavar="H",
        otherwise=f"{HOURS:g}, or as --updates needs")  # fmt: skip
    add("--updates", "train for so many updates", AT_LEAST_1, otherwise="as --hours allows")
    add("--accepted", "end training at so many tokens per iteration on validation sentences",
        Range(1, above=True), metavar="TOK")  # fmt: skip
    add("--limit", "distil at most so many sentences", AT_LEAST_1,
        otherwise="as --hours allows, with --updates all")  # fmt: skip
    add("--beam", "beam of the distillation; 1 is what gad decodes", AT_LEAST_1, 1)
    add("--max-tokens", "tokens of a training batch", AT_LEAST_1,
        otherwise="1800 on a CPU, 8192 on a GPU")  # fmt: skip
    add("--eval-sentences", "validation sentences that judge the training", AT_LEAST_1, 100)
    add("--measure-sentences", "validation sentences that are measured in the end", AT_LEAST_1, 100)
    add("--decode-beam", "beam that the model is used with; measured besides 1", AT_LEAST_1, 5,
        "5, as fairseq-generate's")  # fmt: skip
    add("--batch-sizes", "sentences at a time that the model is used with, each 1 or more; all are "
        "measured", default="1,8", metavar="N[,N]")  # fmt: skip
    add("--threads", "CPU threads", AT_LEAST_1, 1)
    add("--cpu", "use no GPU", default=False, otherwise="use it where there is one")


def check(args: argparse.Namespace) -> None:
    """Refuse flags that contradict one another; set ``hours``, and ``batch_sizes`` as numbers."""
    check_cluster(args)
    if args.hours is not None and args.updates is not None:
        raise UsageError("--hours and --updates", "choose one of them")
    if (args.trainpref is None) != (args.validpref is None):
        raise UsageError("--trainpref and --validpref", "give both, or DATA that is binarised")
    named = args.lang_pairs or (args.source_lang and args.target_lang)
    if args.trainpref is not None and not named:
        raise UsageError("--trainpref", "name the languages with --source-lang and --target-lang")
    if args.hours is None and args.updates is None:
        args.hours = HOURS
    args.batch_sizes = numbers(args.batch_sizes, "--batch-sizes")
