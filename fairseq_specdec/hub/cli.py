"""``specdec-translate``: text in, text out.

A line of the input is a text: its sentences are decoded, and its translation is the line of the
same number. Lines are read as they come, so that memory does not grow with the input.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from fairseq_specdec.commands.own import brief, command_parser, reporting
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import replacing
from fairseq_specdec.io.flag_values import AT_LEAST_1, add_flag

from . import SpeculativeTranslator
from .command_line import FLAGS, add_model, add_model_flags, translator_of

logger = logging.getLogger(__name__)
PROGRAM = "specdec-translate"


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
    add_flag(parser, "--no-split", "decode each line as one, without splitting it into sentences",
             default=False)  # fmt: skip
    add_model_flags(parser)
    return parser


def translate(
    translator: SpeculativeTranslator, lines: Iterable[str], out: IO[str], at_once: int
) -> int:
    """Write the translation of each line, in order.

    Args:
        at_once: lines that are batched together.

    Returns:
        how many were left empty, since the verifier cannot read them; each is logged.
    """
    skipped, stream, numbers = 0, iter(lines), itertools.count(1)
    while block := list(itertools.islice(stream, at_once)):
        texts = [line.rstrip("\r\n") for line in block]
        for result, number in zip(translator.translate(texts, on_error="skip"), numbers):
            if result.error is not None:
                skipped += 1
                logger.warning("line %d: left empty: %s", number, result.error)
            out.write(result.text.replace("\n", " ") + "\n")
        out.flush()
    return skipped


@contextlib.contextmanager
def lines_of(files: Sequence[str]) -> Iterator[Iterable[str]]:
    """The lines of all files, or of standard input. Raises UsageError: one is no text in UTF-8."""
    paths: list[str | int] = [*files] or [os.dup(sys.stdin.fileno())]
    with contextlib.ExitStack() as opened:
        streams = [
            opened.enter_context(open(path, encoding="utf-8", newline="\n")) for path in paths
        ]
        yield itertools.chain.from_iterable(map(_decoded, streams))


def _decoded(stream: IO[str]) -> Iterator[str]:
    try:
        yield from stream
    except UnicodeDecodeError as error:
        name = "standard input" if isinstance(stream.name, int) else stream.name
        what = f"is not UTF-8 text (byte {error.object[error.start]:#04x})"
        raise UsageError(name, what, "convert it with iconv") from error


def main(words: Sequence[str]) -> int:
    args = brief(get_parser()).parse_intermixed_args(list(words))
    flags = {name: getattr(args, name) for name in FLAGS if hasattr(args, name)}
    with lines_of(args.files) as lines:
        target: Any = replacing(args.output) if args.output else contextlib.nullcontext(sys.stdout)
        with translator_of(args, flags, split=False if args.no_split else None) as translator:
            with target as out:
                return 1 if translate(translator, lines, out, args.lines) else 0


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
