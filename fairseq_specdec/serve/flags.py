"""The flags of ``specdec-serve``."""

import argparse
import dataclasses
import functools

from fairseq_specdec.commands.own import command_parser
from fairseq_specdec.hub.command_line import FLAGS, add_model, add_model_flags
from fairseq_specdec.io.flag_values import AT_LEAST_1, SECONDS, Range, add_flag, flag_of

from .cli import PROGRAM, add_address

DESCRIPTION = """A translation server for clients of LibreTranslate and DeepL, with a page on which
strategies race. One process holds the models; threads decode."""
# A server gives one answer to a text.
DECODING = [name for name in FLAGS if not name.startswith("sampling")]


@dataclasses.dataclass(frozen=True)
class Limits:
    """How much a server takes."""

    body: int = 128 * 1024
    batch: int = 16
    texts: int = 128
    characters: int = 5000
    connections: int = 1024
    wait: float = 3.0
    deadline: float = 30.0
    arrival: float = 10.0


LIMITS = {
    "body": "bytes of a request's body",
    "batch": "texts that are decoded together, where that pays; no answer depends on it",
    "texts": "texts of a request",
    "characters": "characters of a text",
    "connections": "connections that are open at the same time",
    "wait": "seconds that a request may be expected to wait; else it is refused with status 429",
    "deadline": "seconds in which an accepted request is answered; else status 504",
    "arrival": "seconds in which a request's body arrives, and the next request on its connection",
}


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(PROGRAM, DESCRIPTION, allow_abbrev=False)
    add_model(parser)
    add = functools.partial(add_flag, parser)
    add_address(parser)
    add("--demo", "load every strategy that the model allows, and fairseq itself, to race on the "
        "page; also named specdec-demo", default=False)  # fmt: skip
    add("--token-file", "file of the token that requests must bring", metavar="FILE",
        otherwise="that of the environment variable SPECDEC_SERVE_TOKEN, or none")  # fmt: skip
    add("--config", "YAML file of several pairs: a list, each with flags of its model, its "
        "decoding and --workers as fields", metavar="FILE",
        otherwise="one pair, by these flags")  # fmt: skip
    _add_pair_flags(parser)
    limits = parser.add_argument_group("limits")
    for name, words in LIMITS.items():
        default = getattr(Limits, name)
        values = SECONDS if isinstance(default, float) else AT_LEAST_1
        add_flag(limits, flag_of("max_" + name), words, values, default)
    return parser


def pair_parser() -> argparse.ArgumentParser:
    """The flags that each pair of ``--config`` has of its own."""
    parser = argparse.ArgumentParser(f"{PROGRAM} --config", add_help=False, allow_abbrev=False)
    _add_pair_flags(parser)
    return parser


def _add_pair_flags(parser: argparse.ArgumentParser) -> None:
    """Model, decoding, threads."""
    text = "threads that decode, one for each core to use"
    add_flag(parser, "--workers", text, Range(1, 256, whole=True), 1)
    add_model_flags(parser, DECODING)
