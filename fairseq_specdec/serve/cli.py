"""``specdec-serve``: a page and a translation server for clients of LibreTranslate and DeepL.

Nothing here imports torch or fairseq: an address that is taken is refused before they load.
"""

from __future__ import annotations

import argparse
import importlib
import ipaddress
import logging
import socket
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from fairseq_specdec.commands.own import reporting
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.flag_values import Range, add_flag

PROGRAM = "specdec-serve"
ADDRESS = "127.0.0.1"
PORT = 8700
_BACKLOG = 2048  # as uvicorn's
# These print something and listen to nothing.
_ASKING = {"-h", "--help", "--version", "--print-completion"}


def add_address(parser: Any) -> None:
    """The flags that are read first."""
    text = "address to listen on; beyond this machine give a token too"
    add_flag(parser, "--host", text, default=ADDRESS)
    add_flag(parser, "--port", "port; 0 picks a free one", Range(0, 65535, whole=True), PORT)


class Bound(NamedTuple):
    """A socket that is bound. ``loopback``: only this machine reaches it."""

    socket: socket.socket
    host: str
    port: int
    loopback: bool

    @property
    def url(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/"


def listen(host: str, port: int) -> Bound:
    """Bind a socket. ``port``: 0 for any free one."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--host {host}", "no address", "give one of this machine's") from error
    bound = socket.socket(family, kind)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise UsageError(
            f"--host {host} --port {port}",
            error.strerror or error,
            "give another, or --port 0 for any free one",
        ) from error
    at = bound.getsockname()
    return Bound(bound, at[0], at[1], ipaddress.ip_address(at[0]).is_loopback)


def _bound(words: Sequence[str]) -> Bound:
    """The socket of a command line, by --host and --port alone."""
    parser = argparse.ArgumentParser(PROGRAM, add_help=False, allow_abbrev=False)
    add_address(parser)

    def refuse(message: str) -> None:
        raise UsageError("", message, f"see {PROGRAM} --help")

    parser.error = refuse  # type: ignore[assignment, method-assign]
    args, _ = parser.parse_known_args(list(words))
    return listen(args.host, args.port)


def get_parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = importlib.import_module(
        "fairseq_specdec.serve.flags"
    ).get_parser()
    return parser


def start(words: Sequence[str]) -> Any:
    """A ``server.Server`` with its models loaded, bound to its address."""
    if _ASKING.intersection(words):
        get_parser().parse_args(list(words))
    bound = _bound(words)
    try:
        server: Any = importlib.import_module("fairseq_specdec.serve.server")
        return server.made(words, bound)
    except BaseException:
        bound.socket.close()
        raise


def cli_main(arguments: list[str] | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("fairseq_specdec.hub").setLevel(logging.INFO)
    with reporting(PROGRAM, arguments) as words:
        server = start(words)
        server.socket.listen(_BACKLOG)  # who reads the line below can connect
        names = ", ".join("-".join(each.languages) for each in server.pairs.services)
        hint = " (Ctrl-C ends it)" if sys.stdout.isatty() else ""
        sys.stdout.write(f"{names} is served at {server.url}{hint}\n")
        sys.stdout.flush()
        # The event loop soon gets the interpreter from a worker between two calls of the library.
        sys.setswitchinterval(0.0005)
        server.uvicorn.run(sockets=[server.socket])
        if server.uvicorn.interrupted and sys.stdout.isatty():
            sys.stdout.write("\n")  # behind the terminal's ^C


def demo_main() -> None:
    """``specdec-demo``: ``specdec-serve --demo``."""
    cli_main(["--demo", *sys.argv[1:]])


if __name__ == "__main__":
    cli_main()
