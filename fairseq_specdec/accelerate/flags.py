"""The flags of ``specdec-accelerate``, and those that make no sense."""

from __future__ import annotations

import argparse

from ..data.cluster_flags import add_cluster_flags, check_cluster
from ..io.flag_values import AT_LEAST_1, InRange, Range, numbers
from ..version import __version__

# Default of --hours where --updates is not given.
HOURS = 2.0


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="specdec-accelerate",
        description="From a verifier's checkpoint and its training data to a drafter, a report "
        "(OUT/report.html) and the command to decode with. Stop it at any time: the same command "
        "goes on.",
    )
    parser.add_argument(
        "data", help="folder that fairseq-preprocess wrote (train and valid), or with --trainpref "
        "the folder that holds the verifier's dict.*.txt"
    )  # fmt: skip
    parser.add_argument(
        "--path", required=True, metavar="FILE", help="the verifier's checkpoint; required"
    )
    parser.add_argument(
        "--out", required=True, metavar="FOLDER",
        help="where drafter.pt, report.html and everything else is written; required",
    )  # fmt: skip
    for flag, short, what in (("--source-lang", "-s", "source"), ("--target-lang", "-t", "target")):
        parser.add_argument(
            flag, short, metavar="LANG", help=f"{what} language (default: as the data say)"
        )
    for split in ("train", "valid"):
        parser.add_argument(
            f"--{split}pref", metavar="PREFIX",
            help=f"parallel text PREFIX.SOURCE and PREFIX.TARGET for {split}, in the verifier's "
            "subwords; --trainpref and --validpref together (default: DATA is binarised)",
        )  # fmt: skip
    _add_limits(parser)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _add_limits(parser: argparse.ArgumentParser) -> None:
    """How long, how much and where."""
    parser.add_argument(
        "--hours", action=InRange, values=Range(0, above=True), metavar="H",
        help="time for everything, %(values)s "
        f"(default: {HOURS:g}, or as --updates needs)",
    )  # fmt: skip
    parser.add_argument(
        "--updates", action=InRange, values=AT_LEAST_1, metavar="N",
        help="train for so many updates, %(values)s (default: as --hours allows)",
    )  # fmt: skip
    parser.add_argument(
        "--accepted", action=InRange, values=Range(1, above=True), metavar="TOK",
        help="end training at so many tokens per iteration on validation sentences, "
        "%(values)s (default: none)",
    )  # fmt: skip
    parser.add_argument(
        "--limit", action=InRange, values=AT_LEAST_1, metavar="N",
        help="distil so many sentences, %(values)s (default: what --hours allows, with --updates "
        "all)",
    )  # fmt: skip
    parser.add_argument(
        "--beam", action=InRange, values=AT_LEAST_1, default=1, metavar="N",
        help="beam of the distillation, %(values)s; 1 is what gad decodes (default: 1)",
    )  # fmt: skip
    add_cluster_flags(parser)
    parser.add_argument(
        "--max-tokens", action=InRange, values=AT_LEAST_1, metavar="N",
        help="tokens of a training batch, %(values)s (default: 1800 on a CPU, 8192 on a GPU)",
    )  # fmt: skip
    parser.add_argument(
        "--eval-sentences", action=InRange, values=AT_LEAST_1, default=100, metavar="N",
        help="validation sentences that judge the training, %(values)s (default: 100)",
    )  # fmt: skip
    parser.add_argument(
        "--measure-sentences", action=InRange, values=AT_LEAST_1, default=100, metavar="N",
        help="validation sentences that are measured in the end, %(values)s (default: 100)",
    )  # fmt: skip
    parser.add_argument(
        "--decode-beam", action=InRange, values=AT_LEAST_1, default=5, metavar="N",
        help="beam that the model is used with; measured besides 1, %(values)s (default: 5, as "
        "fairseq-generate's)",
    )  # fmt: skip
    parser.add_argument(
        "--batch-sizes", default="1,8", metavar="N[,N]",
        help="sentences at a time that the model is used with, each 1 or more; all are measured "
        "(default: 1,8)",
    )  # fmt: skip
    parser.add_argument(
        "--threads", action=InRange, values=AT_LEAST_1, default=1, metavar="T",
        help="CPU threads, %(values)s (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--cpu", action="store_true", help="use no GPU (default: use it where there is one)"
    )


def check(args: argparse.Namespace) -> None:
    """Refuse flags that contradict one another; set ``hours``, and ``batch_sizes`` as numbers."""
    check_cluster(args)
    if args.hours is not None and args.updates is not None:
        raise ValueError("--hours and --updates: choose one of them")
    if (args.trainpref is None) != (args.validpref is None):
        raise ValueError("--trainpref and --validpref: give both, or DATA that is binarised")
    if args.trainpref is not None and not (args.source_lang and args.target_lang):
        raise ValueError("--trainpref: name the languages with --source-lang and --target-lang")
    if args.hours is None and args.updates is None:
        args.hours = HOURS
    args.batch_sizes = numbers(args.batch_sizes, "--batch-sizes")
