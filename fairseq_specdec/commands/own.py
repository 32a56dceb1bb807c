"""Errors and Ctrl-C of this project's own commands."""

import argparse
import contextlib
import logging
import os
import shlex
import sys
from typing import Any, Callable, Iterator, List, Optional, Sequence

from ..version import __version__
from .one_line import one_line, wants_traceback

INTERRUPTED = 130  # exit status after Ctrl-C, as of a shell


def _nothing(words: Sequence[str]) -> str:
    return ""


@contextlib.contextmanager
def reporting(
    program: str,
    arguments: Optional[Sequence[str]] = None,
    saved: Callable[[Sequence[str]], str] = _nothing,
    reworded: Callable[[str], str] = str,
) -> Iterator[List[str]]:
    """End a command with one line where the user made a mistake or pressed Ctrl-C.

    Args:
        arguments: the command line; None for that of this process.
        saved: makes of it the text after Ctrl-C: what is saved, and how to go on.
        reworded: puts a message into the words of the command line.

    Yields:
        The words of the command line.

    Raises:
        SystemExit: with the line. Faults pass as they are, and with ``SPECDEC_TRACEBACK=1`` all do.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        yield words
        _flush()
    except KeyboardInterrupt:
        if wants_traceback():
            raise
        outcome = "; ".join(filter(None, ["stopped (Ctrl-C)", saved(words)]))
        sys.stderr.write(f"\n{program}: {outcome}\n")
        raise SystemExit(INTERRUPTED) from None
    except Exception as error:
        line = None if wants_traceback() else one_line(error, words)
        if line is None:
            raise
        raise SystemExit(f"{program}: error: {reworded(line)}") from error


def _flush() -> None:
    """Write what standard output still holds, so that a full disk is an error of the command.
    Raises OSError: it cannot be written. Nothing is left then for Python to write at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        raise


def log_to_stderr(form: str = "%(levelname)s | %(message)s") -> None:
    """Log from the level that the environment variable LOGLEVEL names."""
    level = os.environ.get("LOGLEVEL", "INFO").upper()
    stamp = "%Y-%m-%d %H:%M:%S"
    logging.basicConfig(format=form, datefmt=stamp, level=level, stream=sys.stderr)


def again(program: str, words: Sequence[str]) -> str:
    """The command line, to be pasted into a shell."""
    return " ".join(map(shlex.quote, [program, *words]))


def nothing_written(program: str) -> Callable[[Sequence[str]], str]:
    """``saved`` of ``reporting`` for a command that writes its file at its end."""
    return lambda words: f"nothing is written yet; start again with: {again(program, words)}"


def command_parser(program: str, description: Any, **settings: Any) -> argparse.ArgumentParser:
    """The parser of a command, with ``--version``."""
    parser = argparse.ArgumentParser(prog=program, description=description, **settings)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def brief(parser: Any, program: str = "") -> Any:
    """Let a parser, and those of its subcommands, refuse with one line instead of all flags."""
    name = program or parser.prog

    def refuse(message: str) -> None:
        parser.exit(2, f"{name}: error: {message}; see {name} --help\n")

    parser.error = refuse
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                brief(inner)
    return parser
