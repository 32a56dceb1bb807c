"""The arguments of ``SpeculativeTranslator.from_pretrained`` as flags of a command."""

from __future__ import annotations

import argparse
import dataclasses
import re
from typing import Any, Dict, Mapping

from fairseq.dataclass.configs import GenerationConfig

from fairseq_specdec.config import SpecDecConfig

from .flags import GENERATION, OWN
from .loading import DEMOS, DTYPES

_ARGUMENTS = (
    "data", "source_lang", "target_lang", "tokenizer", "bpe", "bpe_codes", "device", "dtype",
    "strategy", "batch_size", *OWN, *GENERATION,
)  # fmt: skip


def add_model_flags(which: Any) -> None:
    """Checkpoints, dictionaries, text, and where to run."""
    which.add_argument(
        "--pair",
        choices=sorted(DEMOS),
        help="a demo pair (default: demo_ende, without --path)",
    )
    which.add_argument(
        "--path",
        help="the verifier: a checkpoint, or several joined by a colon for an ensemble "
        "(default: that of --pair)",
    )
    which.add_argument(
        "--drafter-path",
        help="block drafter of gad, gad++ and specdec (default: drafter.pt of the pair)",
    )
    which.add_argument(
        "--data",
        help="folder of the dictionaries (default: beside --path, or where it was trained)",
    )
    _add_text_flags(which)
    which.add_argument("--device", help="cpu, cuda, cuda:1 (default: the GPU where there is one)")
    which.add_argument(
        "--dtype", choices=sorted(DTYPES), default="fp32", help="number format (default: fp32)"
    )


def _add_text_flags(which: Any) -> None:
    """Languages, tokeniser and subwords, in the group of the models."""
    for flag in ("--source-lang", "--target-lang"):
        which.add_argument(flag, help="language (default: the checkpoint's)")
    which.add_argument(
        "--tokenizer",
        default="auto",
        help="fairseq's --tokenizer, or none (default: the checkpoint's)",
    )
    which.add_argument(
        "--bpe", default="auto", help="fairseq's --bpe, or none (default: the checkpoint's)"
    )
    which.add_argument(
        "--bpe-codes",
        help="file of the subword model: subword-nmt's codes, or sentencepiece's *.model or *.spm "
        "(default: looked for beside --path and in --data)",
    )


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
        raise ValueError("--pair and --path: choose one of them")
    return str(args.path if args.path is not None else args.pair or "demo_ende")


def loading_arguments(args: argparse.Namespace) -> Dict[str, Any]:
    """Data, languages, text, device and number format, as ``from_pretrained`` takes them."""
    found = {
        name: getattr(args, name)
        for name in ("data", "source_lang", "target_lang", "bpe_codes", "device", "dtype")
    }
    for name in ("tokenizer", "bpe"):
        value = getattr(args, name)
        found[name] = None if value == "none" else value
    return found


def at_the_prompt(message: str) -> str:
    """An error of the Python interface, with flags in place of its arguments."""
    message = re.sub(r"^verifier\b", "--path", message)
    words = "|".join(sorted(_ARGUMENTS, key=len, reverse=True))

    def flag(found: Any) -> str:
        return "--" + str(found.group(1)).replace("_", "-")

    message = re.sub(rf"^({words})\b", flag, message)
    message = message.replace("bpe=None", "--bpe none")
    return re.sub(rf"\b({words})=\.\.\.", flag, message)
