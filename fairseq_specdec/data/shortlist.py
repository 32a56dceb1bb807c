"""``specdec-shortlist``: give a drafter the list of words that it chooses among.

``specdec-shortlist DATA --drafter-path drafter.pt --out listed.pt`` counts in parallel text which
words each source word becomes (IBM model 1) and writes the drafter again with the likeliest of
them. In decoding such a drafter computes a few hundred of its vocabulary's logits for a sentence.
The verifier still chooses among all words.

DATA is a folder that specdec-distill or fairseq-preprocess wrote; best are the pairs that the
drafter was trained on. It takes a minute and writes OUT at its end, in one step: after an
interruption run it again.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils

from ..commands.own import again, brief, reporting
from ..compat.checkpoints import load_model
from ..decoding.drafter_file import load_drafter, read_drafter
from ..io.atomic import replacing
from ..io.progress import Counter, logs_above
from ..io.provenance import command_line, origin, sha256
from ..models.word_list import FREQUENT, MOST_TRANSLATIONS, TRANSLATIONS, tensors_of
from ..version import __version__
from .corpus import Corpus
from .folder import check_data
from .settings import PACKAGES
from .translation_table import Model1, Pairs, chunks, most_frequent

logger = logging.getLogger("fairseq_specdec.data.shortlist")

PROGRAM = "specdec-shortlist"
RECORD = "word_list"
"""Key of the record of a list in a drafter's checkpoint."""
LONGEST = 250  # tokens; longer sentences say little about single words, and take much memory
SEED = 1


class ShortlistError(Exception):
    """Names the flag or file and the remedy."""


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
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
    """Refuse numbers out of range, and an output that exists.

    Raises:
        ShortlistError: it names the flag and the remedy.
    """
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


class Text(NamedTuple):
    """Parallel text.

    Attributes:
        corpus: its folder.
        source, target: dictionaries.
    """

    corpus: Corpus
    source: Any
    target: Any


def open_text(args: argparse.Namespace) -> Text:
    """Find the split and read its dictionaries.

    Raises:
        FileNotFoundError, ValueError, DistillError: what is missing, and the remedy.
    """
    check_data(args)
    source, target = args.source_lang, args.target_lang
    if source is None or target is None:
        source, target = data_utils.infer_language_pair(args.data)
    corpus = Corpus(args.data, args.gen_subset, source, target)
    files = [os.path.join(args.data, f"dict.{each}.txt") for each in (corpus.source, corpus.target)]
    return Text(corpus, *map(Dictionary.load, files))


def read_pairs(text: Text, most: int) -> Tuple[Pairs, int]:
    """Sentence pairs, drawn at random where there are more; the same ones each time.

    Args:
        text: where from.
        most: pairs at most.

    Returns:
        (the pairs, how many they are). Empty and very long sentences are left out.

    Raises:
        ShortlistError: there are none, the sides differ, or a token is in no dictionary.
    """
    corpus = text.corpus
    sides = [corpus.read(corpus.source, text.source), corpus.read(corpus.target, text.target)]
    total = len(sides[0])
    if total != len(sides[1]):
        raise ShortlistError(
            f"{corpus.directory}: {total} sources and {len(sides[1])} targets; binarise it again"
        )
    numbers = np.arange(total)
    if total > most:
        numbers = np.sort(np.random.default_rng(SEED).choice(total, most, replace=False))
    kept = []
    with Counter(len(numbers), "pair", logger, title="reading") as counter:
        for number in numbers.tolist():
            kept.append([np.asarray(side[number], dtype=np.int32) for side in sides])
            counter.add(1)
    kept = [pair for pair in kept if all(1 < len(side) <= LONGEST for side in pair)]
    if not kept:
        raise ShortlistError(
            f"{corpus.directory}: no pair of {corpus.split} has from 1 to {LONGEST} words a side; "
            "give parallel text"
        )
    found = [part for side in range(2) for part in _joined([pair[side] for pair in kept])]
    for tokens, dictionary in zip(found[::2], (text.source, text.target)):
        if tokens.min() < 0 or tokens.max() >= len(dictionary):
            raise ShortlistError(
                f"{corpus.directory}: its text was binarised with another dictionary than the one "
                "beside it; binarise it again"
            )
    return Pairs(*found), len(kept)


def _joined(sentences: Sequence[Any]) -> Tuple[Any, Any]:
    """One after the other, and where each ends."""
    return np.concatenate(sentences), np.cumsum([len(each) for each in sentences])


def count(pairs: Pairs, text: Text, args: argparse.Namespace) -> Dict[str, torch.Tensor]:
    """The list, as tensors of a checkpoint."""
    source_words, target_words = len(text.source), len(text.target)
    steps = len(chunks(pairs)) * (1 + args.rounds)
    with Counter(steps, "chunk", logger, title="counting") as counter:

        def step() -> None:
            counter.add(1)

        model = Model1(pairs, source_words, target_words, step)
        for _ in range(args.rounds):
            model.refine(step)
    pad = text.target.pad()
    table = model.likeliest(args.translations, pad)
    for word, row in enumerate(table):
        if row[0] == pad:  # not in the text: names and numbers often stay as they are
            row[0] = text.target.index(text.source[word])
    frequent = most_frequent(pairs.target, args.frequent, target_words)
    if text.target.eos() not in frequent:
        frequent = np.append(frequent, text.target.eos())
    return tensors_of(table, frequent, target_words)


def _drafter(path: str, text: Text) -> Dict[str, Any]:
    """A drafter's checkpoint without a list, whose dictionaries are those of the text.

    Raises:
        ValueError: it is no drafter, or has other dictionaries.
    """
    checked = read_drafter(path)
    state = load_model(path)  # as it was written, without what fairseq makes of old ones
    for each in (checked, state):
        for name in (TRANSLATIONS, FREQUENT):
            each["model"].pop(name, None)
    load_drafter(path, text.source, text.target, checked)
    return state


def main(args: argparse.Namespace, words: Sequence[str] = ()) -> Dict[str, Any]:
    """Make the list and write the drafter with it.

    Args:
        args: as :func:`get_parser` reads them.
        words: the command line, for the record.

    Returns:
        the record that the checkpoint holds.

    Raises:
        ShortlistError, DistillError, ValueError, OSError: it names the flag or file.
    """
    check(args)
    text = open_text(args)
    state = _drafter(args.drafter_path, text)
    pairs, counted = read_pairs(text, args.most_pairs)
    tensors = count(pairs, text, args)
    record = {
        **origin(PACKAGES),
        "command": command_line([PROGRAM, *words]),
        "drafter": sha256(args.drafter_path),
        "data": text.corpus.fingerprint(),
        "pairs": counted,
        "translations": args.translations,
        "frequent": args.frequent,
        "rounds": args.rounds,
    }
    state["model"].update(tensors)
    state[RECORD] = record
    with replacing(args.out, "wb") as stream:
        torch.save(state, stream)
    logger.info(
        "%s: %d words for each source word and the %d most frequent ones, from %d pairs",
        args.out, args.translations, len(tensors[FREQUENT]), counted,
    )  # fmt: skip
    return record


def cli_main(arguments: Optional[Sequence[str]] = None) -> None:
    """The console script ``specdec-shortlist``."""
    logging.basicConfig(
        format="%(asctime)s | %(levelname)s | %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
        level=os.environ.get("LOGLEVEL", "INFO").upper(),
        stream=sys.stderr,
    )
    words = list(sys.argv[1:] if arguments is None else arguments)
    nothing = f"nothing is written yet; start again with: {again(PROGRAM, words)}"
    with reporting(PROGRAM, words, lambda: nothing), logs_above():
        main(brief(get_parser()).parse_args(words), words)


if __name__ == "__main__":
    cli_main()
