"""The flags of ``specdec-serve``."""

import argparse
import functools
from typing import Any, Dict

from fairseq_specdec.commands.own import command_parser
from fairseq_specdec.hub.command_line import add_decoding_flags, add_model_flags
from fairseq_specdec.io.flag_values import AT_LEAST_1, SECONDS, Range, add_flag, flag_of
from fairseq_specdec.io.local_http import ADDRESS

from .bench.flags import add_bench_flags
from .limits import Limits
from .listening import PORT

DESCRIPTION = """``specdec-serve``: a translation server for clients of LibreTranslate and DeepL.

One process holds the models; threads decode.
"""
# Decoding flags of this project, with what they are made of.
DECODING: Dict[str, Any] = {
    "block_size": int, "drafter_dtype": str, "verifier_dtype": str, "backend": str,
    "draft_confidence": float, "draft_budget": int, "top_beta": int, "tau": float,
    "regret_budget": float,
}  # fmt: skip
# fairseq's, with values, default and what they set.
SEARCH: Dict[str, Any] = {
    "beam": (AT_LEAST_1, 1, "hypotheses that the search keeps"),
    "nbest": (AT_LEAST_1, 1, "hypotheses that can be asked for, as alternatives"),
    "max_len_a": (Range(0, below=True), 0.0, "a of ax+b, the most tokens for x source tokens"),
    "max_len_b": (Range(0, whole=True), 200, "b of ax+b"),
}
LIMITS = {
    "body": "bytes of a request's body",
    "batch": "texts that are decoded together, where that pays; no answer depends on it",
    "texts": "texts of a request",
    "characters": "characters of a text",
    "requests": "requests that are open at the same time",
    "connections": "connections that are open at the same time",
    "wait": "seconds that a request may be expected to wait; else it is refused with status 429",
    "deadline": "seconds in which an accepted request is answered; else status 504",
    "arrival": "seconds in which a request's headers, and then its body, arrive",
}


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser("specdec-serve", DESCRIPTION)
    add = functools.partial(add_flag, parser)
    add("--host", "address to listen on; beyond this machine give a token too", default=ADDRESS)
    add("--port", "port; 0 picks a free one", Range(0, 65535, whole=True), PORT)
    add("--token-file", "file of the token that requests must bring", metavar="FILE",
        otherwise="that of the environment variable SPECDEC_SERVE_TOKEN, or none")  # fmt: skip
    add("--config", "YAML file of several pairs: a list, each with flags of its model, its "
        "decoding and --workers as fields", metavar="FILE",
        otherwise="one pair, by these flags")  # fmt: skip
    add_pair_flags(parser)
    limits = parser.add_argument_group("limits")
    for name, words in LIMITS.items():
        default = getattr(Limits, name)
        values = SECONDS if isinstance(default, float) else AT_LEAST_1
        add_flag(limits, flag_of("max_" + name), words, values, default)
    add_bench_flags(parser)
    return parser


def add_pair_flags(parser: argparse.ArgumentParser) -> None:
    """What each pair has of its own: model, decoding, threads."""
    text = "threads that decode, one for each core to use"
    add_flag(parser, "--workers", text, Range(1, 256, whole=True), 1)
    add_model_flags(parser.add_argument_group("model"))
    decoding = parser.add_argument_group("decoding", "As with fairseq-generate.")
    decoding.add_argument("--strategy", help="(default: what specdec-accelerate found the fastest "
        "in the folder; else gad where there is a drafter, or greedy)")  # fmt: skip
    add_decoding_flags(decoding, DECODING)
    for name, (values, default, words) in SEARCH.items():
        add_flag(decoding, flag_of(name), words, values, default)
