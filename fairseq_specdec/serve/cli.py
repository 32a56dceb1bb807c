"""``specdec-serve``: a translation server for clients of LibreTranslate and DeepL.

One process holds one model; threads decode.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import math
import socket
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import fairseq_specdec
from fairseq_specdec.commands.own import brief, reporting
from fairseq_specdec.engine.threads import set_threads
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.hub.command_line import (
    add_decoding_flags,
    add_model_flags,
    at_the_prompt,
    loading_arguments,
    verifier_of,
)
from fairseq_specdec.io.flag_values import AT_LEAST_1, InRange, Range, flag_of
from fairseq_specdec.io.local_http import ADDRESS

from .bench.flags import add_bench_flags
from .bench.flags import checked as checked_loads
from .limits import Limits
from .listening import listen

logger = logging.getLogger(__name__)

PORT = 8700
# Decoding flags of this project, with what they are made of.
DECODING: Dict[str, Any] = {
    "block_size": int, "drafter_dtype": str, "verifier_dtype": str, "backend": str,
    "draft_confidence": float, "draft_budget": int, "top_beta": int, "tau": float,
    "regret_budget": float,
}  # fmt: skip
# fairseq's, with values, default and what they set.
SEARCH: Dict[str, Any] = {
    "beam": (AT_LEAST_1, 1, "hypotheses that the search keeps"),
    "nbest": (AT_LEAST_1, 1, "hypotheses that can be asked for, as alternatives"),
    "max_len_a": (Range(0, below=True), 0.0, "a of ax+b, the most tokens for x source tokens"),
    "max_len_b": (Range(0, whole=True), 200, "b of ax+b"),
}
_BACKLOG = 2048  # as uvicorn's
_SECONDS = Range(0, 3600, above=True)
_LIMITS = {
    "body": "bytes of a request's body",
    "batch": "texts that are decoded together, where that pays; no answer depends on it",
    "texts": "texts of a request",
    "characters": "characters of a text",
    "requests": "requests that are open at the same time",
    "connections": "connections that are open at the same time",
    "wait": "seconds that a request may be expected to wait; else it is refused with status 429",
    "deadline": "seconds in which an accepted request is answered; else status 504",
    "arrival": "seconds in which a request's headers, and then its body, arrive",
}


Make = Callable[[argparse.Namespace, Limits], Any]
"""Makes the ``Service`` of a command line."""


class Server(NamedTuple):
    """Ready to serve.

    Attributes:
        uvicorn: the server.
        socket: on which it listens.
        url: its address.
        service: what it serves.
    """

    uvicorn: Any
    socket: socket.socket
    url: str
    service: Any


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="specdec-serve", description=__doc__)
    parser.add_argument(
        "--host",
        default=ADDRESS,
        help="address to listen on; beyond this machine give a token too (default: %(default)s)",
    )
    parser.add_argument(
        "--port",
        action=InRange,
        values=Range(0, 65535, whole=True),
        default=PORT,
        help="port, %(values)s; 0 picks a free one (default: %(default)s)",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="file of the token that requests must bring (default: that of the environment "
        "variable SPECDEC_SERVE_TOKEN, or none)",
    )
    parser.add_argument(
        "--workers",
        action=InRange,
        values=Range(1, 256, whole=True),
        default=1,
        help="threads that decode, one for each core to use, %(values)s (default: %(default)s)",
    )
    add_model_flags(parser.add_argument_group("model"))
    decoding = parser.add_argument_group("decoding", "As with fairseq-generate.")
    decoding.add_argument("--strategy", help="(default: gad where there is a drafter, else greedy)")
    add_decoding_flags(decoding, DECODING)
    for name, (values, default, words) in SEARCH.items():
        decoding.add_argument(
            flag_of(name),
            action=InRange,
            values=values,
            default=default,
            help=f"{words}, %(values)s (default: %(default)s)",
        )
    limits = parser.add_argument_group("limits")
    for name, words in _LIMITS.items():
        default = getattr(Limits, name)
        values = _SECONDS if isinstance(default, float) else AT_LEAST_1
        limits.add_argument(
            flag_of("max_" + name),
            action=InRange,
            values=values,
            default=default,
            help=f"{words}, %(values)s (default: %(default)s)",
        )
    add_bench_flags(parser)
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {fairseq_specdec.__version__}"
    )
    return parser


def start(words: Sequence[str], make: Optional[Make] = None) -> Server:
    """A server with its model loaded, listening.

    Args:
        words: the command line.
        make: makes the service (default: of the model that the flags name).

    Raises:
        ValueError, FileNotFoundError: a flag, file or package that makes no sense, by name.
    """
    args = brief(get_parser()).parse_args(list(words))
    try:
        uvicorn: Any = importlib.import_module("uvicorn")
        app = importlib.import_module("fairseq_specdec.serve.app")
        connections = importlib.import_module("fairseq_specdec.serve.connections")
    except ImportError as error:
        raise ValueError(
            f"serving needs {error.name}; pip install 'fairseq-specdec[serve]'"
        ) from error
    token = importlib.import_module("fairseq_specdec.serve.access").token_of(args.token_file)
    # The port first: if it is taken, that shows before the model is loaded.
    bound = listen(args.host, args.port)
    if token is None and not bound.loopback:
        logger.warning("--host %s without a token: whoever reaches it can use it", args.host)
    limits = Limits(**{name: getattr(args, "max_" + name) for name in _LIMITS})
    try:
        served = (make or _service)(args, limits)
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
    return Server(uvicorn.Server(config), bound.socket, bound.url, served)


def _service(args: argparse.Namespace, limits: Limits) -> Any:
    """What decodes with the model that the flags name."""
    service = importlib.import_module("fairseq_specdec.serve.service")
    return service.Service(translator_of(args), limits, args.workers)


def translator_of(args: argparse.Namespace) -> SpeculativeTranslator:
    """The model that the flags name.

    Raises:
        ValueError, FileNotFoundError: by name.
    """
    set_threads(1)  # workers are what there is of threads
    flags = {name: getattr(args, name) for name in (*DECODING, *SEARCH)}
    flags = {name: value for name, value in flags.items() if value is not None}
    return SpeculativeTranslator.from_pretrained(
        verifier_of(args),
        args.drafter_path,
        strategy=args.strategy,
        **loading_arguments(args),
        **flags,
    )


def serve(words: Sequence[str], make: Optional[Make] = None) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Args:
        words: the command line.
        make: as of ``start``.

    Raises:
        ValueError, FileNotFoundError: as of ``start``.
    """
    server = start(words, make)
    server.socket.listen(_BACKLOG)  # who reads the line below can connect
    source, target = server.service.languages
    sys.stdout.write(f"{source}-{target} is served at {server.url} (Ctrl-C ends it)\n")
    sys.stdout.flush()
    # The event loop soon gets the interpreter from a worker between two calls of the library.
    sys.setswitchinterval(0.0005)
    try:
        server.uvicorn.run(sockets=[server.socket])
    except KeyboardInterrupt:  # raised once all is answered
        sys.stdout.write("\n")


def measure(args: argparse.Namespace, words: Sequence[str]) -> None:
    """Measure what a server of a command line bears.

    Raises:
        ValueError, FileNotFoundError: a flag or file that makes no sense, by name.
    """
    loads = checked_loads(args, get_parser())
    run: Any = importlib.import_module("fairseq_specdec.serve.bench.run")
    run.run(args, words, loads, translator_of(args))


def cli_main(arguments: Optional[List[str]] = None) -> None:
    """The console script ``specdec-serve``."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    words = list(sys.argv[1:] if arguments is None else arguments)
    with reporting("specdec-serve", words, reworded=at_the_prompt):
        args = brief(get_parser()).parse_args(words)
        if args.bench:
            measure(args, words)
        else:
            serve(words)


if __name__ == "__main__":
    cli_main()
