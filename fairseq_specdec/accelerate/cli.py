"""``specdec-accelerate MODEL --data DATA --out FOLDER``: make a drafter and measure it.

Checks the inputs, compares this engine with stock fairseq, distils, trains, lists words,
measures again, and writes FOLDER/drafter.pt and FOLDER/report.html with the commands to decode
with. To resume, rerun the command.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import os
import signal
from collections.abc import Sequence

from fairseq_specdec.errors import UsageError

from ..commands.own import brief, command_parser, load_plugin, log_to_stderr, reporting
from ..data.cluster import add_cluster_flags, check_cluster
from ..data.merge import losses
from ..hub.cli import add_model
from ..io.file_locks import alone
from ..io.flag_values import AT_LEAST_1, Range, add_flag, add_languages, numbers
from . import measuring, report, steps
from .commands import LOCK, Job, decode, further
from .inputs import prepare
from .steps import logger

HOURS = 2.0  # default of --hours where --updates is not given
# A verification of a verifier with fewer decoder layers costs no more than drafting.
LEAST_LAYERS = 3


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "specdec-accelerate",
        "From a verifier's checkpoint and its training data to a drafter, a report "
        "(OUT/report.html) and the command to decode with. To resume, rerun the "
        "command.",
    )
    add = functools.partial(add_flag, parser)
    add_model(parser, help="a folder with verifier.pt in it, such as specdec-convert hf writes, a "
              "checkpoint, or a demo pair; beside --path the data folder")  # fmt: skip
    add("--path", "the verifier, as MODEL", otherwise="MODEL")
    add(
        "--data",
        "folder that fairseq-preprocess wrote (train and valid); with --trainpref the "
        "one of the verifier's dict.*.txt",
        otherwise="MODEL's, or where it was trained",
    )
    add("--out", "where drafter.pt, report.html and everything else is written", metavar="FOLDER",
        required=True)  # fmt: skip
    add_languages(parser)
    add("--lang-pairs", "of a multilingual verifier: pairs that its drafter is trained for and "
        "measured with", metavar="SRC-TGT,...", otherwise="those of its training")  # fmt: skip
    for split in ("train", "valid"):
        add(f"--{split}pref", f"text PREFIX.SOURCE, or parallel with PREFIX.TARGET, for {split}, "
            "in the verifier's subwords (of a model that specdec-convert hf wrote plain, sources "
            "alone); --trainpref and --validpref together", metavar="PREFIX",
            otherwise="the data are binarised")  # fmt: skip
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
    add_cluster_flags(parser)
    return parser


def check(args: argparse.Namespace) -> None:
    """Refuse flags that contradict one another; set ``hours``, and ``batch_sizes`` as numbers."""
    check_cluster(args)
    if args.hours is not None and args.updates is not None:
        raise UsageError("--hours and --updates", "choose one of them")
    if (args.trainpref is None) != (args.validpref is None):
        raise UsageError("--trainpref and --validpref", "give both, or data that are binarised")
    if args.hours is None and args.updates is None:
        args.hours = HOURS
    args.batch_sizes = numbers(args.batch_sizes, "--batch-sizes")


def main(args: argparse.Namespace) -> Job:
    """Do the steps that are not done. One process at a time works in a folder."""
    os.makedirs(args.out, exist_ok=True)
    try:
        with alone(os.path.join(args.out, LOCK), f"--out: {args.out}"):
            return _steps(args)
    finally:
        with contextlib.suppress(OSError):  # unless it is empty
            os.rmdir(args.out)


def _steps(args: argparse.Namespace) -> Job:
    check(args)
    job = prepare(args)
    logger.info("check: the verifier is sound; its drafter: %s", job.described)
    measuring.compare(job)
    job.ways = measuring.worthwhile(job)
    logger.info("compare: %s", report.without_drafter(job))
    try:
        if job.layers < LEAST_LAYERS:
            problem = f"{job.path} has {job.layers} decoder layers"
            remedy = "drafting with 2 layers would cost as much as verifying, and no drafter pays. "
            raise UsageError("--path", problem, f"{remedy}Use --strategy greedy or iad")
        job.hours, job.sentences = measuring.plan(job)
        steps.distil(job)
        counts = job.state.results("distil")["counts"]
        logger.info("distil: %d of %d pairs, %s", counts["kept"], counts["chosen"], losses(counts))
        steps.train(job)
        steps.learn(job)
        measuring.measure(job)
    except UsageError as error:
        report.write(job, refused=str(error))
        remedy = f"{job.file('report.html')} has figures and commands without a drafter"
        raise UsageError("", error, remedy) from error
    recommended = measuring.recommend(job)
    if job.converted is not None:
        measuring.place(job, recommended)
    more = further(job, {best.pair: best.way for best in reversed(recommended)})
    report.write(job, more)
    logger.info("%s", report.verdict(job))
    logger.info("report: %s", job.file("report.html"))
    for best in recommended:
        logger.info("%s: decode with: %s", best.use, decode(job, *best[:4]))
    for use, command in more:
        logger.info("%s with: %s", use, command)
    return job


def cli_main(arguments: Sequence[str] | None = None) -> None:
    load_plugin()
    log_to_stderr("%(asctime)s %(message)s", logging.WARNING, "%H:%M")
    logger.setLevel(logging.INFO)
    # Whoever ends the program ends its steps too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    saved = "finished steps and training's last checkpoint are kept; go on with"
    with reporting("specdec-accelerate", arguments, saved) as words:
        main(brief(get_parser()).parse_args(words))


if __name__ == "__main__":
    cli_main()
