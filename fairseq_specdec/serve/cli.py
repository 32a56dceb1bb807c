"""``specdec-serve``: a translation server for clients of LibreTranslate and DeepL."""

import argparse
import contextlib
import importlib
import logging
import math
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fairseq_specdec.commands.own import brief, reporting
from fairseq_specdec.engine.threads import set_threads
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.hub.command_line import loading_arguments, verifier_of

from .bench.flags import checked as checked_loads
from .config_file import Entry, entries, fields_of
from .flags import DECODING, LIMITS, SEARCH, add_pair_flags, get_parser
from .limits import Limits
from .listening import listen

logger = logging.getLogger(__name__)

_BACKLOG = 2048  # as uvicorn's
Make = Callable[[argparse.Namespace, Limits], Any]
"""Makes the ``Service`` of a command line."""


class Server(NamedTuple):
    """Ready to serve."""

    uvicorn: Any
    socket: socket.socket
    url: str
    pairs: Any


def start(words: Sequence[str], make: Make | None = None) -> Server:
    """A server with its model loaded, listening. ``make``: makes the service (default: of the model
    that the flags name)."""
    args = brief(get_parser()).parse_args(list(words))
    try:
        uvicorn: Any = importlib.import_module("uvicorn")
        app = importlib.import_module("fairseq_specdec.serve.app")
        connections = importlib.import_module("fairseq_specdec.serve.connections")
    except ImportError as error:
        raise UsageError(
            "", f"serving needs {error.name}", "pip install 'fairseq-specdec[serve]'"
        ) from error
    token = importlib.import_module("fairseq_specdec.serve.access").token_of(args.token_file)
    # The port first: if it is taken, that shows before the model is loaded.
    bound = listen(args.host, args.port)
    if token is None and not bound.loopback:
        logger.warning("--host %s without a token: whoever reaches it can use it", args.host)
    limits = Limits(**{name: getattr(args, "max_" + name) for name in LIMITS})
    try:
        served = _pairs(args, limits, make or _service)
    except BaseException:
        bound.socket.close()
        raise
    config = uvicorn.Config(
        app.make_app(served, token, bound.port if bound.loopback else None),
        http=connections.protocol(limits),
        ws="none",
        lifespan="on",
        log_config=None,
        server_header=False,
        proxy_headers=False,
        # What was accepted is answered before its deadline.
        timeout_graceful_shutdown=math.ceil(limits.deadline) + 1,
    )
    return Server(_patient(uvicorn.Server)(config), bound.socket, bound.url, served)


def _patient(server: Any) -> Any:
    """uvicorn's server, whose end a second signal does not cut short: threads would stay. It does
    not raise the signal again at its end: the process ends with status 0."""

    class Patient(server):  # type: ignore[misc]
        interrupted = False

        def handle_exit(self, number: int, frame: Any) -> None:
            self.should_exit = True
            self.interrupted = number == signal.SIGINT

    return Patient


def _pairs(args: argparse.Namespace, limits: Limits, make: Make) -> Any:
    """The pairs of a command line, ready to translate."""
    pairs: Any = importlib.import_module("fairseq_specdec.serve.pairs")
    services: list[Any] = []
    with contextlib.ExitStack() as undone:
        if args.config is None:
            services.append(make(args, limits))
        for entry in _entries(args):
            with entry.blamed():
                service = make(entry.parsed(_pair_parser()), limits)
                undone.callback(service.close)
                pairs.check_new(services, service)
            services.append(service)
        undone.pop_all()
    return pairs.Pairs(services)


def _pair_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="specdec-serve --config", add_help=False)
    add_pair_flags(parser)
    return parser


def _entries(args: argparse.Namespace) -> list[Entry]:
    """The pairs of ``--config``."""
    if args.config is None:
        return []
    parser = _pair_parser()
    for flag, action in fields_of(parser).items():
        if getattr(args, action.dest) != action.default:
            raise UsageError(f"--{flag}", "with --config it is a field of a pair", "leave it out")
    return entries(args.config, parser)


def _service(args: argparse.Namespace, limits: Limits) -> Any:
    """What decodes with the model that the flags name."""
    service = importlib.import_module("fairseq_specdec.serve.service")
    return service.Service(translator_of(args), limits, args.workers)


def translator_of(args: argparse.Namespace) -> SpeculativeTranslator:
    """The model that the flags name."""
    set_threads(1)  # workers are what there is of threads
    flags = {name: getattr(args, name) for name in (*DECODING, *SEARCH)}
    flags = {name: value for name, value in flags.items() if value is not None}
    return SpeculativeTranslator.from_pretrained(
        verifier_of(args), args.drafter_path, strategy=args.strategy, **loading_arguments(args),
        **flags,
    )  # fmt: skip


def serve(words: Sequence[str], make: Make | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    server = start(words, make)
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


def measure(args: argparse.Namespace, words: Sequence[str]) -> None:
    """Measure what a server of a command line bears."""
    loads = checked_loads(args, get_parser())
    run: Any = importlib.import_module("fairseq_specdec.serve.bench.run")
    run.run(args, words, loads, translator_of(args))


def cli_main(arguments: list[str] | None = None) -> None:
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("fairseq_specdec.hub").setLevel(logging.INFO)
    with reporting("specdec-serve", arguments) as words:
        args = brief(get_parser()).parse_args(words)
        if args.bench:
            measure(args, words)
        else:
            serve(words)


if __name__ == "__main__":
    cli_main()
