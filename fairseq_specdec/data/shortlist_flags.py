"""The flags of ``python -m fairseq_specdec.data.shortlist``."""

import argparse
import functools

from ..commands.own import command_parser
from ..io.flag_values import AT_LEAST_1, Range, add_flag, add_languages
from ..models.word_list import MOST_TRANSLATIONS

PROGRAM = "python -m fairseq_specdec.data.shortlist"


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(
        PROGRAM,
        "Give a block drafter a list of words to choose among for each sentence: the "
        "likeliest translations of its words and the most frequent words. Drafts take less time, "
        "and the output of lossless decoding stays the same. Takes about a minute; stopped, it "
        "leaves no file.",
    )
    add = functools.partial(add_flag, parser)
    parser.add_argument(
        "data", help="folder with parallel text in the drafter's dictionaries, which "
        "specdec-distill or fairseq-preprocess wrote: best what the drafter was trained on"
    )  # fmt: skip
    add("--drafter-path", "the drafter's checkpoint", metavar="FILE", required=True)
    add("--out", "checkpoint to write", metavar="FILE", required=True)
    add_languages(parser)
    add("--dictionary", "words and language tokens of a multilingual drafter whose checkpoint does "
        "not name them", metavar="FILE",
        otherwise="those of DATA, with the drafter's languages")  # fmt: skip
    add("--gen-subset", "split of DATA to count in", default="train", metavar="SPLIT")
    add("--translations", "words listed for a source word",
        Range(1, MOST_TRANSLATIONS, whole=True), 20)  # fmt: skip
    add("--frequent", "most frequent words, listed for every sentence", AT_LEAST_1, 100)
    add("--rounds", "rounds of expectation maximisation", AT_LEAST_1, 4)
    add("--most-pairs", "sentence pairs to count at most, drawn at random from more: 100000 pairs "
        "of 20 words take about 1.5 GB of memory", AT_LEAST_1, 100000)  # fmt: skip
    add("--force", "replace OUT if it exists", default=False)
    return parser
