"""The parallel text of a binarised folder, in memory, and the commands that learn from it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fairseq.tasks.translation import TranslationTask

from fairseq_specdec.errors import UsageError

from ..commands.own import brief, command_parser, load_plugin, log_to_stderr, reporting
from ..io.flag_values import AT_LEAST_1, add_flag, add_languages
from ..io.progress import bar
from .corpus import Corpus
from .folder import data_named

LONGEST = 250  # tokens; longer sentences say little about single words, and take much memory
SEED = 1


Pairs = list[tuple[np.ndarray, np.ndarray]]
"""Source and target of each sentence pair: int32, tokens with </s>."""


def open_text(args: argparse.Namespace, tokens: Sequence[str] = ()) -> Corpus:
    """Find the split and read its dictionaries, to which ``tokens`` are added."""
    with data_named(args.data):
        task = TranslationTask.setup_task(argparse.Namespace(**vars(args)))
    for dictionary in (task.source_dictionary, task.target_dictionary):
        for token in tokens:
            dictionary.add_symbol(token)
    return Corpus(args.data, args.gen_subset, task)


def read_pairs(corpus: Corpus, most: int) -> Pairs:
    """Sentence pairs, drawn at random where there are more; the same ones each time. Empty and very
    long sentences are left out."""
    sides = [corpus.read(corpus.source), corpus.read(corpus.target)]
    total = min(map(len, sides))
    numbers = np.random.default_rng(SEED).choice(total, min(most, total), replace=False)
    kept = []
    for number in bar(np.sort(numbers).tolist(), "reading", unit="pair"):
        source, target = (np.asarray(side[number], dtype=np.int32) for side in sides)
        if 1 < len(source) <= LONGEST and 1 < len(target) <= LONGEST:
            kept.append((source, target))
    if not kept:
        raise UsageError(
            corpus.directory,
            f"no pair of {corpus.split} has from 1 to {LONGEST} words a side",
            "give parallel text",
        )
    return kept


def text_parser(program: str, description: str, data: str) -> argparse.ArgumentParser:
    """The flags of a command that learns from parallel text. ``data``: what DATA holds."""
    parser = command_parser(program, description)
    wrote = "folder that specdec-distill or fairseq-preprocess wrote: "
    parser.add_argument("data", help=wrote + data)
    add_flag(parser, "--out", "file to write", metavar="FILE", required=True)
    add_languages(parser)
    add_flag(parser, "--gen-subset", "split of DATA to read", default="train", metavar="SPLIT")
    add_flag(parser, "--most-pairs", "sentence pairs to read at most, drawn at random from more: "
             "100000 pairs of 20 words take about 1.5 GB of memory",
             AT_LEAST_1, 100000)  # fmt: skip
    add_flag(parser, "--force", "replace OUT if it exists", default=False)
    return parser


def run_command(
    program: str,
    get_parser: Callable[[], argparse.ArgumentParser],
    main: Callable[[argparse.Namespace, Sequence[str]], Any],
    arguments: Sequence[str] | None,
) -> None:
    """Run a command that writes its file at its end."""
    load_plugin()
    log_to_stderr("%(asctime)s | %(levelname)s | %(message)s")
    saved = "nothing is written yet; start again with"
    with reporting(program, arguments, saved) as words:
        main(brief(get_parser()).parse_args(words), words)
