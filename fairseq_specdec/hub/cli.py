"""``specdec-translate``: text in, text out; and the flags of a model, for every command.

A line of the input is a text: its sentences are decoded, and its translation is the line of the
same number.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fairseq_specdec.commands.own import brief, command_parser, reporting
from fairseq_specdec.engine.devices import DTYPES
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import check_new_file, replacing
from fairseq_specdec.io.flag_values import AT_LEAST_1, InRange, Range, add_flag, flag_of

from . import SpeculativeTranslator, lines
from .flags import FIELDS, kind_of

PROGRAM = "specdec-translate"
DEMO = "demo_ende"


def add_model(parser: argparse.ArgumentParser, **settings: Any) -> None:
    """MODEL, as every command takes it. ``settings``: of ``add_argument``."""
    text = (
        "a demo pair (demo_ende, demo_edit), a checkpoint, several joined by a colon, or a folder "
        f"with verifier.pt in it; beside --path the data folder (default: {DEMO})"
    )
    parser.add_argument("model", metavar="MODEL", **{"nargs": "?", "help": text, **settings})


def add_model_flags(parser: argparse.ArgumentParser, names: Iterable[str] = FIELDS) -> None:
    """Where a model is, how its text is made, and how it decodes."""
    add = functools.partial(add_flag, parser.add_argument_group("model"))
    add("--path", "the verifier, as MODEL", otherwise="MODEL")
    add("--drafter-path", "block drafter of gad, gad++ and specdec, or small model of sps and bild",
        otherwise="drafter.pt of the folder")  # fmt: skip
    add("--data", "folder of the dictionaries", otherwise="beside --path, or where it was trained")
    checkpoints = functools.partial(add, otherwise="the checkpoint's")
    for side in ("source", "target"):
        checkpoints(f"-{side[0]} --{side}-lang", f"{side} language", metavar="LANG")
    for flag in ("--tokenizer", "--bpe"):
        checkpoints(flag, f"fairseq's {flag}, or none", default="auto")
    add("--bpe-codes", "file of the subword model: subword-nmt's codes, or sentencepiece's *.model "
        "or *.spm", otherwise="looked for beside --path and in --data")  # fmt: skip
    add("--device", "cpu, cuda, cuda:1", otherwise="the GPU where there is one")
    add("--dtype", "precision", tuple(sorted(DTYPES)), "fp32")
    decoding = parser.add_argument_group("decoding", "As with fairseq-generate.")
    decoding.add_argument("--strategy", help="(default: what specdec-accelerate found the fastest "
        "in the folder; else gad where there is a drafter, or greedy)")  # fmt: skip
    for name in names:
        add_field(decoding, FIELDS[name])


def add_field(group: Any, field: Any) -> None:
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


def flags_of(args: argparse.Namespace) -> dict[str, Any]:
    """The decoding flags that a command line gives."""
    return {name: getattr(args, name) for name in FIELDS if hasattr(args, name)}


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


# ---- the command ---------------------------------------------------------------------------------


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(PROGRAM, "Translate plain text, line by line.", allow_abbrev=False)
    add_model(parser, nargs=None)
    parser.add_argument(
        "files", metavar="FILE", nargs="*", default=[], help="texts (default: standard input)"
    )
    add_flag(parser, "--output -o", "where to write, once all is translated", metavar="FILE",
             otherwise="standard output, line by line")  # fmt: skip
    add_flag(
        parser, "--lines", "lines that are read, and batched by length, at once", AT_LEAST_1, 256
    )
    add_flag(parser, "--drafts", "text with a line for each line of the input: what its "
             "translation is expected to be like, as that of an earlier version; translations do "
             "not depend on it, and take less time", metavar="FILE", otherwise="none")  # fmt: skip
    add_flag(parser, "--workers", "processes that translate at once, on a CPU", AT_LEAST_1, 1)
    add_flag(parser, "--resume", "keep what is translated in OUTPUT.partial until all is, and "
             "go on with that file if it is there", default=False)  # fmt: skip
    add_flag(parser, "--json", "write a JSON object for each line: source, text, score, "
             "alternatives, iterations, accepted, error", default=False)  # fmt: skip
    add_flag(parser, "--no-split", "decode each line as one, without splitting it into sentences",
             default=False)  # fmt: skip
    add_model_flags(parser)
    return parser


def main(words: Sequence[str]) -> int:
    args = brief(get_parser()).parse_intermixed_args(list(words))
    flags = flags_of(args)
    if args.resume and not args.output:
        raise UsageError("--resume", "continues a file", "name it by --output")
    if args.output:
        check_new_file(args.output, "--output")
    if args.drafts and not os.path.exists(args.drafts):
        raise UsageError("--drafts", f"no such file: {args.drafts}")
    target: Any = contextlib.nullcontext(sys.stdout)
    if args.output:
        target = lines.kept(args.output) if args.resume else replacing(args.output)
    given = contextlib.nullcontext(None) if args.drafts is None else lines.lines_of([args.drafts])
    with lines.lines_of(args.files) as texts, given as drafts:
        with translator_of(args, flags, split=False if args.no_split else None) as translator:
            with target as out, lines.translating(translator, args.workers) as translate:
                out, done = out if args.resume else (out, 0)
                blocks = lines.blocks_of(texts, drafts, args.lines, done)
                return 1 if lines.write(translate(blocks), out, done, args.json) else 0


def cli_main(arguments: Sequence[str] | None = None) -> None:
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    with reporting(PROGRAM, arguments) as words:
        try:
            status = main(words)
        except BrokenPipeError:  # whoever read has left, as head does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = 0
    sys.exit(status)


if __name__ == "__main__":
    cli_main()
