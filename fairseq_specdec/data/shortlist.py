"""Give a drafter the list of words that it chooses among.

``python -m fairseq_specdec.data.shortlist DATA --drafter-path drafter.pt --out listed.pt`` counts
in parallel text which words each source word becomes (IBM model 1) and writes the drafter again
with the likeliest of them. In decoding such a drafter computes a few hundred of its vocabulary's
logits for a sentence.
The verifier still chooses among all words. The drafter of a multilingual model gets a list for each
pair that it was trained with, and decoding takes that of its pair.

DATA is a folder that specdec-distill or fairseq-preprocess wrote; best are the pairs that the
drafter was trained on. It takes a minute and writes OUT at its end, in one step: after an
interruption run it again.
"""

from __future__ import annotations

import argparse
import functools
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from fairseq_specdec.errors import UsageError

from ..checkpoints.reading import load_model
from ..decoding.drafter_file import load_drafter, read_drafter
from ..decoding.training_dictionaries import TrainingSettings
from ..io.atomic import check_new_file, replacing
from ..io.flag_values import AT_LEAST_1, Range, add_flag
from ..io.progress import Counter
from ..io.provenance import command_line, origin, sha256
from ..models.word_list import MOST_TRANSLATIONS, names_of, tensors_of
from .parallel import Text, open_text, read_pairs, run_command, text_parser
from .translation_table import Model1, Pairs, chunks, most_frequent
from .work import PACKAGES

logger = logging.getLogger("fairseq_specdec.data.shortlist")
PROGRAM = "python -m fairseq_specdec.data.shortlist"

RECORD = "word_list"
"""Key of the record of a list in a drafter's checkpoint."""


def get_parser() -> argparse.ArgumentParser:
    parser = text_parser(
        PROGRAM,
        "Give a block drafter a list of words to choose among for each sentence: the "
        "likeliest translations of its words and the most frequent words. Drafts take less time, "
        "and the output of lossless decoding stays the same. Takes about a minute; stopped, it "
        "leaves no file.",
        "parallel text in the drafter's dictionaries, best what the drafter was trained on",
    )
    add = functools.partial(add_flag, parser)
    add("--drafter-path", "the drafter's checkpoint", metavar="FILE", required=True)
    add("--dictionary", "words and language tokens of a multilingual drafter whose checkpoint does "
        "not name them", metavar="FILE",
        otherwise="those of DATA, with the drafter's languages")  # fmt: skip
    add("--translations", "words listed for a source word",
        Range(1, MOST_TRANSLATIONS, whole=True), 20)  # fmt: skip
    add("--frequent", "most frequent words, listed for every sentence", AT_LEAST_1, 100)
    add("--rounds", "rounds of expectation maximisation", AT_LEAST_1, 4)
    return parser


def open_texts(args: argparse.Namespace, state: Any) -> list[Text]:
    """The texts to count in: of a multilingual drafter one for each pair of its training, or that
    which the flags name."""
    settings = TrainingSettings(state)
    pairs, tokens = settings.pairs(), settings.tokens()
    if not pairs:
        return [open_text(args, tokens or ())]
    if tokens is None and args.dictionary is None:
        raise UsageError(
            "--dictionary",
            "missing",
            "the drafter was trained with --fixed-dictionary or --lang-dict: name a "
            "dictionary of its words and language tokens",
        )
    named = [args.source_lang, args.target_lang]
    if named.count(None) == 1:
        raise UsageError(
            "--source-lang and --target-lang",
            "name both for one pair, neither for all pairs of the drafter",
        )
    if None not in named:
        pairs = ["-".join(named)]
    texts = []
    for pair in pairs:
        flags = argparse.Namespace(**vars(args))
        flags.source_lang, flags.target_lang = pair.split("-")
        texts.append(open_text(flags, tokens or (), pair))
    return texts


def count(pairs: Pairs, text: Text, args: argparse.Namespace) -> dict[str, torch.Tensor]:
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
    return tensors_of(table, frequent, target_words, text.pair)


def _drafter(path: str, checked: Any, texts: Sequence[Text]) -> dict[str, Any]:
    """A drafter's checkpoint without the lists to make, with the text's dictionaries."""
    state: dict[str, Any] = load_model(
        path
    )  # as it was written, without what fairseq makes of old ones
    for each in (checked, state):
        for name in [name for text in texts for name in names_of(text.pair)]:
            each["model"].pop(name, None)
    for text in texts:
        load_drafter(path, text.source, text.target, checked)
    return state


def main(args: argparse.Namespace, words: Sequence[str] = ()) -> dict[str, Any]:
    """Make the lists and write the drafter with them. Returns the record that the checkpoint
    holds."""
    check_new_file(args.out, "--out", args.force)
    checked = read_drafter(args.drafter_path)
    texts = open_texts(args, checked)
    state = _drafter(args.drafter_path, checked, texts)
    counted, data = {}, {}
    for text in texts:
        pairs, counted[text.pair] = read_pairs(text, args.most_pairs)
        tensors = count(pairs, text, args)
        state["model"].update(tensors)
        data.update(text.corpus.fingerprint())
        logger.info(
            "%s%s: %d words for each source word and the %d most frequent ones, from %d pairs",
            args.out, f", {text.pair}" if text.pair else "", args.translations,
            len(tensors[names_of(text.pair)[1]]), counted[text.pair],
        )  # fmt: skip
    state[RECORD] = record = {
        **origin(PACKAGES),
        "command": command_line([*PROGRAM.split(), *words]),
        "drafter": sha256(args.drafter_path),
        "data": data,
        "pairs": counted if texts[0].pair else counted[None],
        "translations": args.translations,
        "frequent": args.frequent,
        "rounds": args.rounds,
    }
    with replacing(args.out, "wb") as stream:
        torch.save(state, stream)
    return record


def cli_main(arguments: Sequence[str] | None = None) -> None:
    run_command(PROGRAM, get_parser, main, arguments)


if __name__ == "__main__":
    cli_main()
