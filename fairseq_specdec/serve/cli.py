"""``specdec-serve``: a page and a translation server for clients of LibreTranslate and DeepL."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairseq_specdec.commands.own import brief, command_parser, reporting
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub.command_line import FLAGS, add_model, add_model_flags
from fairseq_specdec.io.flag_values import AT_LEAST_1, SECONDS, Range, add_flag, flag_of

from .config_file import entries
from .limits import Limits

if TYPE_CHECKING:
    from .server import Server

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
        values = SECONDS if isinstance(field.default, float) else AT_LEAST_1
        text, default = field.metadata["text"], field.default
        add_flag(limits, flag_of("max_" + field.name), text, values, default)
    return parser


def pair_parser() -> argparse.ArgumentParser:
    """The flags that each pair of ``--config`` has of its own."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    _add_pair_flags(parser)
    return parser


def _add_pair_flags(parser: argparse.ArgumentParser) -> None:
    """Model, decoding, threads."""
    text = "threads that decode, one for each core to use"
    add_flag(parser, "--workers", text, Range(1, 256, whole=True), 1)
    # A server gives one answer to a text.
    add_model_flags(parser, [name for name in FLAGS if not name.startswith("sampling")])


def _pairs(args: argparse.Namespace) -> dict[str, argparse.Namespace]:
    """The flags of each pair, by its place in ``--config``."""
    if args.config is None:
        return {"": args}
    parser = pair_parser()
    for action in parser._actions:
        if getattr(args, action.dest, action.default) != action.default:
            flag = action.option_strings[-1]
            raise UsageError(flag, "with --config it is a field of a pair", "leave it out")
    if args.demo or args.model is not None:
        raise UsageError("--config", "names the models", "leave --demo and the model out")
    return entries(args.config, parser)


def start(words: Sequence[str]) -> Server:
    """A server with its models loaded, bound to its address."""
    args = brief(get_parser()).parse_args(list(words))
    try:
        from .server import made
    except ModuleNotFoundError as missing:
        raise UsageError(
            "", f"serving needs {missing.name}", "pip install 'fairseq-specdec[serve]'"
        ) from missing
    return made(args, _pairs(args))


def cli_main(arguments: list[str] | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("fairseq_specdec.hub").setLevel(logging.INFO)
    with reporting(PROGRAM, arguments) as words:
        server = start(words)
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
