"""The arguments of ``SpeculativeTranslator.from_pretrained`` as flags, for every command."""

import argparse
import contextlib
import dataclasses
import functools
from collections.abc import Iterable, Iterator
from typing import Any

from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.flag_values import InRange, Range, add_flag, flag_of

from .flags import FIELDS, kind_of
from .loading import DTYPES
from .translator import SpeculativeTranslator

DEMO = "demo_ende"
FLAGS = tuple(FIELDS)
"""Every decoding flag, but ``--strategy``."""


def add_model(parser: argparse.ArgumentParser, **settings: Any) -> None:
    """MODEL, as every command takes it. ``settings``: of ``add_argument``."""
    text = (
        "a demo pair (demo_ende, demo_edit), a checkpoint, several joined by a colon, or a folder "
        f"with verifier.pt in it; beside --path the data folder (default: {DEMO})"
    )
    parser.add_argument("model", metavar="MODEL", **{"nargs": "?", "help": text, **settings})


def add_model_flags(parser: argparse.ArgumentParser, decoding_flags: Iterable[str] = FLAGS) -> None:
    """Where a model is, how its text is made, and how it decodes."""
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
    for name in decoding_flags:
        _add_field(decoding, FIELDS[name])


def _add_field(group: Any, field: Any) -> None:
    """A flag of a configuration, without a default: what is not given is not passed on."""
    words, values, (kind, _) = field.metadata["help"], field.metadata.get("values"), kind_of(field)
    default = 1 if field.name == "beam" else field.default  # as from Python
    if "default" not in words and default not in (None, dataclasses.MISSING):
        words += f" (default: {default})"
    settings: dict[str, Any] = {"type": kind, "choices": values}
    if kind is bool:
        settings = {"action": "store_true"}
    elif isinstance(values, Range):
        settings = {"action": InRange, "values": values, "metavar": "N"}
    group.add_argument(
        flag_of(field.name), default=argparse.SUPPRESS, help=words.replace("%", "%%"), **settings
    )


def translator_of(
    args: argparse.Namespace, flags: dict[str, Any], **more: Any
) -> SpeculativeTranslator:
    """The model that a command line names. ``flags``: how to decode. ``more``: of
    ``from_pretrained``."""
    verifier, data = verifier_of(args)
    names = ("source_lang", "target_lang", "bpe_codes", "device", "dtype", "strategy")
    given = {name: getattr(args, name) for name in names}
    for name in ("tokenizer", "bpe"):
        given[name] = None if getattr(args, name) == "none" else getattr(args, name)
    with model_named(args):
        return SpeculativeTranslator.from_pretrained(
            verifier, args.drafter_path, data, **given, **flags, **more
        )


@contextlib.contextmanager
def model_named(args: argparse.Namespace) -> Iterator[None]:
    """Name MODEL in a mistake about the verifier, where the command line has no ``--path``."""
    try:
        yield
    except UsageError as error:
        if args.path is None:
            error.original = error.original.reworded({"path": "MODEL"}.get)
        raise


def verifier_of(args: argparse.Namespace) -> tuple[str, str | None]:
    """The model and the folder of its dictionaries: MODEL, or DATA --path MODEL as in fairseq."""
    first = getattr(args, "model", None)
    if args.path is None:
        return first or DEMO, args.data
    if first is not None and args.data is not None:
        raise UsageError(f"--data {args.data}", f"{first} is the data already", "give one of them")
    return args.path, first or args.data
