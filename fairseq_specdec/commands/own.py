"""What this project's own commands share: parsers, logs, users' mistakes and Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from fairseq_specdec.errors import UsageError
from fairseq_specdec.version import __version__

INTERRUPTED = 130  # exit status after Ctrl-C, as of a shell


@contextlib.contextmanager
def reporting(
    program: str, arguments: Sequence[str] | None = None, saved: str = ""
) -> Iterator[list[str]]:
    """End a command with one line where the user made a mistake or pressed Ctrl-C.

    Args:
        arguments: the command line; None for that of this process.
        saved: what Ctrl-C leaves; the command line to go on with is printed after it.

    Yields:
        The arguments of the command line.

    Raises:
        SystemExit: with the line, for a ``UsageError`` and for a file that the system refuses.
            Anything else is a fault and passes.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    warnings.filterwarnings("ignore", module=r"hydra\.")  # of the way fairseq calls it
    warnings.filterwarnings("ignore", message=r"\s*'config' is validated")  # of hydra, patched
    try:
        yield words
        sys.stdout.flush()
    except KeyboardInterrupt:
        outcome = f"; {saved}: {shlex.join([program, *words])}" if saved else ""
        sys.stderr.write(f"\n{program}: stopped (Ctrl-C){outcome}\n")
        raise SystemExit(INTERRUPTED) from None
    except UsageError as error:
        raise SystemExit(f"{program}: error: {error.original}") from error
    except OSError as error:
        raise SystemExit(f"{program}: error: {error}") from error


def load_plugin() -> None:
    """Patch fairseq, and register the tasks, models and criterions; a second call does nothing."""
    importlib.import_module("fairseq_specdec.tasks")  # which builds on what commands are made of


def log_to_stderr(
    form: str = "%(levelname)s | %(message)s",
    level: str | int | None = None,
    stamp: str = "%Y-%m-%d %H:%M:%S",
) -> None:
    """Log from ``level`` on; None for the one that the environment variable LOGLEVEL names."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        if type(handler) is logging.StreamHandler:  # importing fairseq adds one, for all levels
            root.removeHandler(handler)
    level = os.environ.get("LOGLEVEL", "INFO").upper() if level is None else level
    logging.basicConfig(format=form, datefmt=stamp, level=level, stream=sys.stderr)


def command_parser(program: str, description: Any, **settings: Any) -> argparse.ArgumentParser:
    """The parser of a command, with ``--version`` and shell completion."""
    parser = argparse.ArgumentParser(prog=program, description=description, **settings)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def brief(parser: Any, program: str = "") -> Any:
    """Let a parser, and those of its subcommands, refuse with one line instead of all flags, and
    print shell completion where shtab is installed (``--print-completion bash``)."""
    name = program or parser.prog

    def refuse(message: str) -> None:
        parser.exit(2, f"{name}: error: {message}; see {name} --help\n")

    parser.error = refuse
    with contextlib.suppress(ImportError):
        import shtab

        if "--print-completion" not in parser._option_string_actions and " " not in name:
            shtab.add_argument_to(parser)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                brief(inner)
    return parser
