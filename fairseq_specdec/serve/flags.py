"""The flags of ``specdec-serve``."""

import argparse
import dataclasses
import functools
from typing import Any

from fairseq.dataclass.configs import GenerationConfig

from fairseq_specdec.commands.own import command_parser
from fairseq_specdec.config import SpecDecConfig
from fairseq_specdec.hub.flags import GENERATION, OWN
from fairseq_specdec.hub.loading import DTYPES
from fairseq_specdec.io.flag_values import AT_LEAST_1, SECONDS, InRange, Range, add_flag, flag_of

from .cli import PROGRAM, add_address

DESCRIPTION = """A translation server for clients of LibreTranslate and DeepL, with a page on which
strategies race. One process holds the models; threads decode."""
DEMO = "demo_ende"
# Every decoding flag but those of sampling: a server gives one answer to a text.
DECODING = [name for name in (*GENERATION, *OWN) if not name.startswith("sampling")]


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
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a demo pair (demo_ende, demo_edit), a checkpoint, several joined by a colon, or a "
        f"folder with verifier.pt in it; beside --path the data folder (default: {DEMO})",
    )
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
    add = functools.partial(add_flag, parser.add_argument_group("model"))
    add("--path", "the verifier, as MODEL", otherwise="MODEL")
    add("--drafter-path", "block drafter of gad, gad++ and specdec, or small model of sps and bild",
        otherwise="drafter.pt of the folder")  # fmt: skip
    add("--data", "folder of the dictionaries", otherwise="beside --path, or where it was trained")
    checkpoints = functools.partial(add, otherwise="the checkpoint's")
    for side in ("source", "target"):
        checkpoints(f"-{side[0]} --{side}-lang", f"{side} language", metavar="LANG")
    for name in ("--tokenizer", "--bpe"):
        checkpoints(name, f"fairseq's {name}, or none", default="auto")
    add("--bpe-codes", "file of the subword model: subword-nmt's codes, or sentencepiece's *.model "
        "or *.spm", otherwise="looked for beside --path and in --data")  # fmt: skip
    add("--device", "cpu, cuda, cuda:1", otherwise="the GPU where there is one")
    add("--dtype", "number format", tuple(sorted(DTYPES)), "fp32")
    decoding = parser.add_argument_group("decoding", "As with fairseq-generate.")
    decoding.add_argument("--strategy", help="(default: what specdec-accelerate found the fastest "
        "in the folder; else gad where there is a drafter, or greedy)")  # fmt: skip
    fields = {**GenerationConfig.__dataclass_fields__, **SpecDecConfig.__dataclass_fields__}
    for name in DECODING:
        _add_field(decoding, fields[name])


def _add_field(group: Any, field: Any) -> None:
    """A flag of a configuration, without a default: what is not given is not passed on."""
    words, values = str(field.metadata["help"]), field.metadata.get("values")
    default = 1 if field.name == "beam" else field.default  # as from Python
    if "default" not in words and default not in (None, dataclasses.MISSING):
        words += f" (default: {default})"
    kinds = (each for each in (bool, float, int) if each.__name__ in str(field.type))
    settings: dict[str, Any] = {"type": next(kinds, str), "choices": values}
    if settings["type"] is bool:
        settings = {"action": "store_true"}
    elif isinstance(values, Range):
        settings = {"action": InRange, "values": values, "metavar": "N"}
    group.add_argument(
        flag_of(field.name), default=argparse.SUPPRESS, help=words.replace("%", "%%"), **settings
    )
