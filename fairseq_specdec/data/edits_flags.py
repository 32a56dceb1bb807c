"""The flags of ``python -m fairseq_specdec.data.edits``."""

import argparse
import functools

from ..commands.own import command_parser
from ..io.flag_values import AT_LEAST_0, AT_LEAST_1, SHARE, add_flag, add_languages

PROGRAM = "python -m fairseq_specdec.data.edits"


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(
        PROGRAM,
        "Learn from pairs of source and output which edits a correcting model makes, for "
        "--strategy iad --edits: drafts then hold them, and the output stays the same. Takes about "
        "a minute; stopped, it leaves no file.",
    )
    add = functools.partial(add_flag, parser)
    parser.add_argument(
        "data", help="folder with sources and outputs in one dictionary, which specdec-distill or "
        "fairseq-preprocess wrote: best what the model itself writes for text like that to correct"
    )  # fmt: skip
    add("--out", "file to write", metavar="FILE", required=True)
    add_languages(parser)
    add("--gen-subset", "split of DATA to learn from", default="train", metavar="SPLIT")
    add("--context", "tokens before and after an edit that decide on it, at most", AT_LEAST_0, 2)
    add("--share", "places of which an edit must be made, as a share", SHARE, 0.8)
    add("--least", "times that an edit must be made", AT_LEAST_1, 3)
    add("--most-pairs", "sentence pairs to learn from at most, drawn at random from more",
        AT_LEAST_1, 100000)  # fmt: skip
    parser.set_defaults(dictionary=None)  # those of DATA
    add("--force", "replace OUT if it exists", default=False)
    return parser
