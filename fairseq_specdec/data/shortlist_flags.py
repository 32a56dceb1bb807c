"""The flags of ``specdec-shortlist``, and what is refused before anything is read."""

from __future__ import annotations

import argparse
import os

from ..models.word_list import MOST_TRANSLATIONS
from ..version import __version__

PROGRAM = "specdec-shortlist"


class ShortlistError(Exception):
    """Names the flag or file and the remedy."""


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Give a block drafter a list of words to choose among for each sentence: the "
        "likeliest translations of its words and the most frequent words. Drafts take less time, "
        "and lossless decoding says the same. Takes about a minute; stopped, it leaves no file.",
    )
    parser.add_argument(
        "data", help="folder with parallel text in the drafter's dictionaries, which "
        "specdec-distill or fairseq-preprocess wrote: best what the drafter was trained on"
    )  # fmt: skip
    parser.add_argument(
        "--drafter-path", required=True, metavar="FILE", help="the drafter's checkpoint; required"
    )
    parser.add_argument(
        "--out", required=True, metavar="FILE", help="checkpoint to write; required"
    )
    for flag, short, what in (("--source-lang", "-s", "source"), ("--target-lang", "-t", "target")):
        parser.add_argument(
            flag, short, metavar="LANG", help=f"{what} language (default: as the data say)"
        )
    parser.add_argument(
        "--dictionary", metavar="FILE", help="words and language tokens of a multilingual drafter "
        "whose checkpoint does not name them (default: those of DATA, with the drafter's languages)"
    )  # fmt: skip
    parser.add_argument(
        "--gen-subset", default="train", metavar="SPLIT",
        help="split of DATA to count in (default: train)",
    )  # fmt: skip
    _add_sizes(parser)
    parser.add_argument(
        "--force", action="store_true", help="replace OUT if it exists (default: off)"
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    """How much to list and to count."""
    for flag, default, text in (
        ("--translations", 20, f"words listed for a source word, from 1 to {MOST_TRANSLATIONS}"),
        ("--frequent", 100, "most frequent words, listed for every sentence, 1 or more"),
        ("--rounds", 4, "rounds of expectation maximisation, 1 or more"),
        (
            "--most-pairs", 100000,
            "sentence pairs to count at most, 1 or more, drawn at random from more: 100000 pairs "
            "of 20 words take about 1.5 GB of memory",
        ),
    ):  # fmt: skip
        help_text = f"{text} (default: {default})"
        parser.add_argument(flag, type=int, default=default, metavar="N", help=help_text)


def check(args: argparse.Namespace) -> None:
    """Refuse numbers out of range, and an output that exists."""
    for name in ("translations", "frequent", "rounds", "most_pairs"):
        value = getattr(args, name)
        if value < 1:
            raise ShortlistError(f"--{name.replace('_', '-')} {value}: must be 1 or more")
    if args.translations > MOST_TRANSLATIONS:
        raise ShortlistError(
            f"--translations {args.translations}: must be {MOST_TRANSLATIONS} or less"
        )
    if os.path.lexists(args.out):
        if not os.path.isfile(args.out):
            raise ShortlistError(f"--out: {args.out} exists and is no file; choose another name")
        if not args.force:
            raise ShortlistError(f"--out: {args.out} exists; --force replaces it")
    folder = os.path.dirname(os.path.abspath(args.out))
    if not os.path.isdir(folder):
        raise ShortlistError(f"--out: no such folder: {folder}; make it first")
