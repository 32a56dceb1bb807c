"""The arguments of ``SpeculativeTranslator.from_pretrained`` as flags of a command."""

import argparse
import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

from fairseq.dataclass.configs import GenerationConfig

from fairseq_specdec.config import SpecDecConfig
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.flag_values import add_flag

from .described import Described, describe
from .flags import GENERATION, OWN
from .loading import DEMOS, DTYPES

_ARGUMENTS = (
    "data", "source_lang", "target_lang", "tokenizer", "bpe", "bpe_codes", "device", "dtype",
    "strategy", "batch_size", *OWN, *GENERATION,
)  # fmt: skip


def add_model_flags(which: Any) -> None:
    """Checkpoints, dictionaries, text, and where to run."""
    add = functools.partial(add_flag, which)
    add("--pair", "a demo pair", tuple(sorted(DEMOS)), otherwise="demo_ende, without --path")
    add("--path", "the verifier: a checkpoint, or several joined by a colon for an ensemble",
        otherwise="that of --pair")  # fmt: skip
    add("--drafter-path", "block drafter of gad, gad++ and specdec",
        otherwise="drafter.pt of the pair")  # fmt: skip
    add("--data", "folder of the dictionaries", otherwise="beside --path, or where it was trained")
    checkpoints = functools.partial(add, otherwise="the checkpoint's")
    for name in ("--source-lang", "--target-lang"):
        checkpoints(name, "language")
    for name in ("--tokenizer", "--bpe"):
        checkpoints(name, f"fairseq's {name}, or none", default="auto")
    add("--bpe-codes", "file of the subword model: subword-nmt's codes, or sentencepiece's *.model "
        "or *.spm", otherwise="looked for beside --path and in --data")  # fmt: skip
    add("--device", "cpu, cuda, cuda:1", otherwise="the GPU where there is one")
    add("--dtype", "number format", tuple(sorted(DTYPES)), "fp32")


def add_decoding_flags(decoding: Any, kinds: Mapping[str, Any]) -> None:
    """Decoding flags, with fairseq's and the task's help texts."""
    fields = {**GenerationConfig.__dataclass_fields__, **SpecDecConfig.__dataclass_fields__}
    for name, kind in kinds.items():
        field = fields[name]
        words = str(field.metadata["help"])
        if "default" not in words and field.default not in (None, dataclasses.MISSING):
            words += f" (default: {field.default})"
        decoding.add_argument("--" + name.replace("_", "-"), type=kind, help=words)


def verifier_of(args: argparse.Namespace) -> str:
    """``--path``, or the folder or name of ``--pair``."""
    if args.pair is not None and args.path is not None:
        raise UsageError("--pair and --path", "choose one of them")
    return str(args.path if args.path is not None else args.pair or "demo_ende")


def loading_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Data, languages, text, device and number format, as ``from_pretrained`` takes them."""
    arguments = {
        name: getattr(args, name)
        for name in ("data", "source_lang", "target_lang", "bpe_codes", "device", "dtype")
    }
    for name in ("tokenizer", "bpe"):
        value = getattr(args, name)
        arguments[name] = None if value == "none" else value
    return arguments


def described(path: str, source: str | None, target: str | None) -> Described:
    """``describe`` for a checkpoint in a converted folder; its errors name flags."""
    try:
        description = describe([path], source, target)
    except ValueError as error:
        raise UsageError("", at_the_prompt(str(error))) from error
    assert description is not None
    return description


def at_the_prompt(message: str) -> str:
    """An error of the Python interface, with flags in place of its arguments."""
    message = re.sub(r"^verifier\b", "--path", message)
    words = "|".join(sorted(_ARGUMENTS, key=len, reverse=True))

    def flag(match: Any) -> str:
        return "--" + str(match.group(1)).replace("_", "-")

    message = re.sub(rf"^({words})\b", flag, message)
    message = message.replace("bpe=None", "--bpe none")
    message = re.sub(rf"\b({words})=\.\.\.", flag, message)
    return re.sub(rf"\b({words})='([^']*)'", lambda m: f"{flag(m)} {m.group(2)}", message)
