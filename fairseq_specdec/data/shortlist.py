"""Give a drafter its vocabulary shortlist.

``python -m fairseq_specdec.data.shortlist DATA --drafter-path drafter.pt --out listed.pt`` counts
in parallel text which words each source word becomes (IBM model 1) and writes the drafter again
with the likeliest of them. In decoding such a drafter computes a few hundred of its vocabulary's
logits per sentence; the verifier still chooses among all words. The drafter of a multilingual model
gets a list for each pair that it was trained with, and decoding takes that of its pair.
"""

from __future__ import annotations

import argparse
import functools
import logging
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fairseq_specdec.errors import UsageError

from ..checkpoints.reading import load_model
from ..decoding.drafter_file import TrainingSettings, load_drafter, read_drafter
from ..io.atomic import check_new_file, replacing
from ..io.flag_values import AT_LEAST_1, Range, add_flag
from ..io.provenance import origin, sha256
from ..models.word_list import MOST_TRANSLATIONS, names_of, tensors_of
from .corpus import Corpus, each_pair
from .parallel import Pairs, open_text, read_pairs, run_command, text_parser
from .translation_table import likeliest_translations, most_frequent
from .work import PACKAGES

logger = logging.getLogger("fairseq_specdec.data.shortlist")
PROGRAM = "python -m fairseq_specdec.data.shortlist"
RECORD = "word_list"  # key of the record of a list in a drafter's checkpoint


def get_parser() -> argparse.ArgumentParser:
    parser = text_parser(
        PROGRAM,
        "Give a block drafter a vocabulary shortlist for each sentence: the "
        "likeliest translations of its tokens and the most frequent tokens. Drafts take less time, "
        "and the output of lossless decoding stays the same. Takes about a minute.",
        "parallel text in the drafter's dictionaries, best what the drafter was trained on",
    )
    add = functools.partial(add_flag, parser)
    add("--drafter-path", "the drafter's checkpoint", metavar="FILE", required=True)
    add("--translations", "tokens listed for each source token",
        Range(1, MOST_TRANSLATIONS, whole=True), 20)  # fmt: skip
    add("--frequent", "most frequent tokens, listed for every sentence", AT_LEAST_1, 100)
    add("--rounds", "rounds of expectation maximisation", AT_LEAST_1, 4)
    return parser


def open_texts(args: argparse.Namespace, state: Any) -> dict[str | None, Corpus]:
    """The texts to count in: of a multilingual drafter one for each pair of its training, or that
    which the flags name, by pair; else one, without a pair."""
    settings = TrainingSettings(state)
    pairs, tokens = settings.pairs(), settings.tokens()
    if pairs and tokens is None:
        problem = (
            "was trained with --fixed-dictionary or --lang-dict, whose tokens it does not name"
        )
        raise UsageError(f"--drafter-path {args.drafter_path}", problem, "draft without a list")
    if not pairs:
        return {None: open_text(args, tokens or ())}
    return {pair: open_text(flags, tokens or ()) for pair, flags in each_pair(args, pairs)}


def count(pairs: Pairs, text: Corpus, args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """The list: likeliest translations of each source token, and the most frequent tokens."""
    target, sizes = text.target_words, (len(text.source_words), len(text.target_words))
    pad, eos = target.pad(), target.eos()
    table = likeliest_translations(pairs, *sizes, args.rounds, args.translations, pad)
    for word, row in enumerate(table):
        if row[0] == pad:  # not in the text: names and numbers often stay as they are
            row[0] = target.index(text.source_words[word])
    frequent = most_frequent(pairs, args.frequent)
    if eos not in frequent:
        frequent = np.append(frequent, eos)
    return table, frequent


def main(args: argparse.Namespace, words: Sequence[str] = ()) -> dict[str, Any]:
    """Make the lists and write the drafter with them. Returns the record that the checkpoint
    holds."""
    check_new_file(args.out, "--out", args.force)
    checked = read_drafter(args.drafter_path)
    texts = open_texts(args, checked)
    # As it was written, without what fairseq makes of old ones.
    state: dict[str, Any] = load_model(args.drafter_path)
    for each in (checked, state):
        for name in [name for pair in texts for name in names_of(pair)]:
            each["model"].pop(name, None)
    for text in texts.values():
        load_drafter(args.drafter_path, text.source_words, text.target_words, checked)
    counted, data = {}, {}
    for pair, text in texts.items():
        pairs = read_pairs(text, args.most_pairs)
        counted[pair] = len(pairs)
        table, frequent = count(pairs, text, args)
        state["model"].update(tensors_of(table, frequent, len(text.target_words), pair))
        data.update(text.fingerprint())
        logger.info(
            "%s%s: %d tokens for each source token and the %d most frequent ones, from %d pairs",
            args.out, f", {pair}" if pair else "", args.translations, len(frequent), len(pairs),
        )  # fmt: skip
    state[RECORD] = record = {
        **origin(PACKAGES),
        "command": shlex.join([*PROGRAM.split(), *words]),
        "drafter": sha256(args.drafter_path),
        "data": data,
        "pairs": counted.get(None, counted),
        **{name: getattr(args, name) for name in ("translations", "frequent", "rounds")},
    }
    with replacing(args.out, "wb") as stream:
        torch.save(state, stream)
    return record


def cli_main(arguments: Sequence[str] | None = None) -> None:
    run_command(PROGRAM, get_parser, main, arguments)


if __name__ == "__main__":
    cli_main()
