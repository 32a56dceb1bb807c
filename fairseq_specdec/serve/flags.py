"""The flags of ``specdec-serve``."""

from __future__ import annotations

import argparse
from typing import Any, Dict

import fairseq_specdec
from fairseq_specdec.hub.command_line import add_decoding_flags, add_model_flags
from fairseq_specdec.io.flag_values import AT_LEAST_1, InRange, Range, flag_of
from fairseq_specdec.io.local_http import ADDRESS

from .bench.flags import add_bench_flags
from .limits import Limits

DESCRIPTION = """``specdec-serve``: a translation server for clients of LibreTranslate and DeepL.

One process holds the models; threads decode.
"""
PORT = 8700
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
_SECONDS = Range(0, 3600, above=True)
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
    parser = argparse.ArgumentParser(prog="specdec-serve", description=DESCRIPTION)
    parser.add_argument(
        "--host",
        default=ADDRESS,
        help="address to listen on; beyond this machine give a token too (default: %(default)s)",
    )
    parser.add_argument(
        "--port",
        action=InRange,
        values=Range(0, 65535, whole=True),
        default=PORT,
        help="port, %(values)s; 0 picks a free one (default: %(default)s)",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="file of the token that requests must bring (default: that of the environment "
        "variable SPECDEC_SERVE_TOKEN, or none)",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="YAML file of several pairs: a list, each with flags of its model, its decoding and "
        "--workers as fields (default: one pair, by these flags)",
    )
    add_pair_flags(parser)
    limits = parser.add_argument_group("limits")
    for name, words in LIMITS.items():
        default = getattr(Limits, name)
        values = _SECONDS if isinstance(default, float) else AT_LEAST_1
        limits.add_argument(
            flag_of("max_" + name),
            action=InRange,
            values=values,
            default=default,
            help=f"{words}, %(values)s (default: %(default)s)",
        )
    add_bench_flags(parser)
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {fairseq_specdec.__version__}"
    )
    return parser


def add_pair_flags(parser: argparse.ArgumentParser) -> None:
    """What each pair has of its own: model, decoding, threads."""
    parser.add_argument(
        "--workers",
        action=InRange,
        values=Range(1, 256, whole=True),
        default=1,
        help="threads that decode, one for each core to use, %(values)s (default: %(default)s)",
    )
    add_model_flags(parser.add_argument_group("model"))
    decoding = parser.add_argument_group("decoding", "As with fairseq-generate.")
    decoding.add_argument("--strategy", help="(default: gad where there is a drafter, else greedy)")
    add_decoding_flags(decoding, DECODING)
    for name, (values, default, words) in SEARCH.items():
        decoding.add_argument(
            flag_of(name),
            action=InRange,
            values=values,
            default=default,
            help=f"{words}, %(values)s (default: %(default)s)",
        )
