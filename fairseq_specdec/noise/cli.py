"""``specdec-noise``: clean text -> pairs of faulty and clean sentences, to pretrain correction on.

``specdec-noise clean.txt --dest OUT`` leaves OUT/train.src (with errors) and OUT/train.tgt (clean),
a sentence a line, after Grundkiewicz et al. (2019), as Ge et al. (2022, section 4.1.1) pretrain.

A line's errors depend on --seed and on its number alone. Work is cut into chunks that are saved
whole (``OUT.parts``): kill the command at any time and run it again. Run it under torchrun, as a
Slurm array, or with ``--shard i/n`` in several processes; the last to finish publishes OUT.
"""

from __future__ import annotations

import argparse
import functools
import logging
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from fairseq_specdec.errors import UsageError

from ..commands.own import brief, command_parser
from ..data.work import add_work_flags, resolve_shard, resumable_command
from ..io.flag_values import AT_LEAST_1, SHARE, Range, add_flag
from ..io.progress import Counter
from ..io.provenance import sha256
from .chunks import NoisedChunks, count_lines, noise_chunks
from .confusion import SIZE, ConfusionFile, SpellChecker, describe
from .operations import Confusions, NoiseSettings, noise_line

logger = logging.getLogger("fairseq_specdec.noise")
PAPER = NoiseSettings()
FINITE = Range(0, below=True)
# What the corpus depends on beside its text and the confusion sets.
RECORDED = (
    "error_mean", "error_deviation", "substitute", "delete", "insert", "swap", "spelling", "seed",
    "name", "source_suffix", "target_suffix", "chunk_size",
)  # fmt: skip


def get_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = command_parser("specdec-noise", __doc__, formatter_class=raw)
    add = functools.partial(add_flag, parser)
    parser.add_argument("input", help="clean text in UTF-8, one sentence a line, best tokenised")
    add("--dest", "directory of the pairs", metavar="DIR", required=True)
    add("--name", "of the files in DIR", default="train", metavar="NAME")
    add("--source-suffix", "of the faulty side", default="src")
    add("--target-suffix", "of the clean side", default="tgt")
    add("--seed", "of the errors, a whole number", default=1, type=int)
    _add_error_flags(parser)
    add_work_flags(parser.add_argument_group("Work"), "lines", 20000)
    return parser


def _add_error_flags(parser: argparse.ArgumentParser) -> None:
    """How many errors there are, and of which kinds."""
    noise = parser.add_argument_group("Errors (defaults: Grundkiewicz et al. 2019)")
    add = functools.partial(add_flag, noise, metavar="P")
    add("--error-mean", "mean share of a sentence's words that change", SHARE, PAPER.mean)
    add("--error-deviation", "its standard deviation", FINITE, PAPER.deviation)
    for name, text in (
        ("substitute", "another word of its confusion set"),
        ("delete", "the word left out"),
        ("insert", "a random word after it"),
        ("swap", "the word exchanged with the next"),
    ):
        add(f"--{name}", f"weight of {text}", FINITE, getattr(PAPER, name))
    add("--spelling", "probability that a word is misspelled", SHARE, PAPER.spelling)
    add_flag(noise, "--confusions", "words in a set", AT_LEAST_1, SIZE)
    add("--dictionary", "'word count' lines", default="", metavar="FILE",
        otherwise="the spell-checker's own English ones")  # fmt: skip
    add("--confusion-sets", "lines of a word and, between tabs, what it may be mistaken for, in "
        "place of the English spell-checker's, for other languages", default="", metavar="FILE",
        otherwise="that one's")  # fmt: skip


class Job(NamedTuple):
    """What the command line asks for, checked against what is on disk."""

    noise: NoiseSettings
    chunks: NoisedChunks


def check(args: argparse.Namespace) -> NoiseSettings:
    """Refuse what cannot be honoured, by flag name."""
    noise = NoiseSettings(
        args.error_mean, args.error_deviation, args.substitute, args.delete, args.insert,
        args.swap, args.spelling,
    )  # fmt: skip
    problem = noise.problem()
    if problem:
        raise UsageError("", problem)
    for flag, path in (
        ("input", args.input),
        ("--dictionary", args.dictionary),
        ("--confusion-sets", args.confusion_sets),
    ):
        if path and not os.path.isfile(path):
            raise UsageError(flag, f"{path} is no file")
    if args.source_suffix == args.target_suffix:
        raise UsageError(
            "--source-suffix, --target-suffix", f"both are {args.source_suffix}", "choose two"
        )
    for flag, name in (
        ("--name", args.name),
        ("--source-suffix", args.source_suffix),
        ("--target-suffix", args.target_suffix),
    ):
        if not name or os.path.basename(name) != name:
            raise UsageError(f"{flag} {name!r}", "expected a part of a file name")
    return noise


def prepare(args: argparse.Namespace, words: Sequence[str]) -> Job:
    """Check flags, files and earlier results; no dictionary is loaded."""
    noise = check(args)
    settings: dict[str, Any] = {
        "--" + name.replace("_", "-"): getattr(args, name) for name in RECORDED
    }
    settings["input"] = "sha256:" + sha256(args.input)
    settings.update(describe(args.confusions, args.dictionary, args.confusion_sets))
    total = count_lines(args.input)
    if not total:
        raise UsageError("input", f"{args.input} is empty")
    destination = os.path.abspath(args.dest)
    chunks = NoisedChunks(destination, settings, args, total, words)
    chunks.check_destination(args.overwrite)
    return Job(noise, chunks)


def main(args: argparse.Namespace, arguments: Sequence[str] = ()) -> dict[str, Any] | None:
    """Noise, or continue to; the last process to finish publishes the corpus. Returns the report
    written to ``noise.json``, or None while other shards are at work."""
    shard = resolve_shard(args.shard, os.environ)
    job = prepare(args, arguments)
    chunks = job.chunks

    def work() -> None:
        mine = [chunk for chunk in chunks.todo() if chunk % shard.world == shard.rank]
        place = f"{shard.rank}/{shard.world}"
        logger.info("shard %s: %d of %d chunks to noise", place, len(mine), chunks.count)
        if mine and not args.merge:
            _noise(job, args, mine)

    return chunks.run(shard, work, args.merge)


def _noise(job: Job, args: argparse.Namespace, mine: list[int]) -> None:
    confusions: Confusions
    if args.confusion_sets:
        confusions = ConfusionFile(args.confusion_sets)
    else:
        confusions = SpellChecker(args.confusions, args.dictionary)
    planned = sum(
        min(job.chunks.size, job.chunks.total - chunk * job.chunks.size) for chunk in mine
    )
    with Counter(planned, "line", logger) as progress:
        noise_chunks(
            job.chunks,
            mine,
            lambda line, number: noise_line(line, number, args.seed, job.noise, confusions),
            progress.add,
        )


def cli_main(arguments: Sequence[str] | None = None) -> None:
    with resumable_command("specdec-noise", arguments) as words:
        main(brief(get_parser()).parse_args(words), words)


if __name__ == "__main__":
    cli_main()
