"""``specdec-serve``: a page and a translation server for clients of LibreTranslate and DeepL."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import logging
import queue
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from fairseq_specdec.commands.own import brief, command_parser, reporting
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub.cli import add_field, add_model, add_model_flags
from fairseq_specdec.hub.flags import FIELDS
from fairseq_specdec.io.flag_values import Range, add_flag, flag_of

from .limits import Limits

if TYPE_CHECKING:
    from .server import Server

Pair = tuple[contextlib.AbstractContextManager[None], argparse.Namespace]
"""The flags of a pair, and a context that names their place in errors."""
PROGRAM = "specdec-serve"
DESCRIPTION = """A translation server for clients of LibreTranslate and DeepL, with a page on which
strategies race. One process holds the models; threads decode."""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(PROGRAM, DESCRIPTION, allow_abbrev=False)
    add_model(parser)
    add = functools.partial(add_flag, parser)
    add("--host", "address to listen on; beyond this machine give a token too", default="127.0.0.1")
    add("--port", "port; 0 picks a free one", Range(0, 65535, whole=True), 8700)
    add("--demo", "load every strategy that the model allows, and fairseq itself, to race on the "
        "page; also named specdec-demo", default=False)  # fmt: skip
    add("--token-file", "file of the token that requests must bring", metavar="FILE",
        otherwise="that of the environment variable SPECDEC_SERVE_TOKEN, or none")  # fmt: skip
    add("--config", "YAML file of several pairs: a list, each with flags of its model, its "
        "decoding and --workers as fields", metavar="FILE",
        otherwise="one pair, by these flags")  # fmt: skip
    _add_pair_flags(parser)
    limits = parser.add_argument_group("limits")
    for field in dataclasses.fields(Limits):
        add_field(limits, field)
    return parser


def _add_pair_flags(parser: argparse.ArgumentParser) -> None:
    """Model, decoding, threads: what each pair of ``--config`` has of its own."""
    text = "threads that decode, one for each core to use"
    add_flag(parser, "--workers", text, Range(1, 256, whole=True), 1)
    add_flag(parser, "--learn-vocabulary", "file to which the tokens most used in answers are "
             "written at the end, and the --vocabulary-list if it is there", metavar="FILE",
             otherwise="none")  # fmt: skip
    # A server gives one answer to a text.
    add_model_flags(parser, [name for name in FIELDS if not name.startswith("sampling")])


# ---- --config ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _blamed(place: str) -> Iterator[None]:
    """Name the place, file and entry, and the field in errors."""
    try:
        yield
    except UsageError as error:
        raise UsageError(place, error.original.reworded(lambda name: name)) from error


def pairs_of(args: argparse.Namespace) -> list[Pair]:
    """The flags of each pair, of ``--config`` (a list of mappings in YAML) or the command line.
    Raises OSError or UsageError: the file cannot be read, or is no such list."""
    if args.config is None:
        return [(contextlib.nullcontext(), args)]
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    _add_pair_flags(parser)
    for action in parser._actions:
        if getattr(args, action.dest, action.default) != action.default:
            flag = action.option_strings[-1]
            raise UsageError(flag, "with --config it is a field of a pair", "leave it out")
    if args.demo or args.model is not None:
        raise UsageError("--config", "names the models", "leave --demo and the model out")

    def refuse(message: str) -> None:
        raise UsageError("", message.removeprefix("argument --"))

    parser.error = refuse  # type: ignore[assignment, method-assign]
    place = f"--config {args.config}"
    with open(args.config, encoding="utf-8", errors="replace") as stream, _blamed(place):
        try:
            # Every value is a string, as on the command line: no stays Norwegian.
            content: Any = yaml.BaseLoader(stream).get_single_data()
        except yaml.YAMLError as error:
            raise UsageError("", f"is no YAML: {error}") from error
        if not isinstance(content, list) or not content:
            problem = "expected a list of pairs, each '- path: FILE' and more fields"
            raise UsageError("", problem)
    found: list[Pair] = []
    for number, fields in enumerate(content, 1):
        with _blamed(f"{place}: entry {number}"):
            flags = parser.parse_args(_words(fields, parser))
        found.append((_blamed(f"{place}: entry {number}"), flags))
    return found


def _words(fields: Any, parser: argparse.ArgumentParser) -> list[str]:
    """The flags of an entry."""
    if not isinstance(fields, dict):
        raise UsageError("", "expected fields, as in 'path: FILE'")
    switches = [name for each in parser._actions if each.nargs == 0 for name in each.option_strings]
    words = []
    for name, value in fields.items():
        flag = flag_of(str(name))
        if not isinstance(value, str) or not value:
            raise UsageError(name, "expected one value")
        if flag in switches and value in ("true", "yes"):
            words.append(flag)
        elif flag not in switches or value not in ("false", "no"):
            words.append(f"{flag}={value}")
    return words


# ---- the command ---------------------------------------------------------------------------------


def start(words: Sequence[str]) -> Server:
    """A server with its models loaded, bound to its address."""
    args = brief(get_parser()).parse_args(list(words))
    try:
        from .server import made
    except ModuleNotFoundError as missing:
        remedy = "pip install 'fairseq-specdec[serve]'"
        raise UsageError("", f"serving needs {missing.name}", remedy) from missing
    return made(args, pairs_of(args))


def _reload(server: Server, hangups: queue.SimpleQueue[None]) -> None:
    """Load the models again on each SIGHUP; end if its reason is that the terminal was closed."""
    terminal = sys.stdout.isatty()
    while hangups.get() is None and sys.stdout.isatty() == terminal:
        server.pairs.reload()
    server.should_exit = True


def cli_main(arguments: list[str] | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C; SIGHUP loads the models again."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("fairseq_specdec.hub").setLevel(logging.INFO)
    with reporting(PROGRAM, arguments) as words:
        server = start(words)
        hangups = queue.SimpleQueue[None]()  # which a handler may interrupt
        signal.signal(signal.SIGHUP, lambda *_: hangups.put(None))
        threading.Thread(target=_reload, args=(server, hangups), daemon=True).start()
        names = ", ".join("-".join(each.languages) for each in server.pairs.services)
        hint = " (Ctrl-C ends it)" if sys.stdout.isatty() else ""
        sys.stdout.write(f"{names} is served at {server.url}{hint}\n")
        sys.stdout.flush()
        # The event loop soon gets the interpreter from a worker between two calls of the library.
        sys.setswitchinterval(0.0005)
        server.run(sockets=[server.socket])


def demo_main() -> None:
    """``specdec-demo``: ``specdec-serve --demo``."""
    cli_main(["--demo", *sys.argv[1:]])


if __name__ == "__main__":
    cli_main()
