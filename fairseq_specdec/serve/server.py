"""From a command line to a server: models, pairs and uvicorn."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import logging
import math
import os
import signal
import socket
from collections.abc import Sequence
from typing import Any, NamedTuple

from fairseq_specdec.commands.own import brief
from fairseq_specdec.decoding.strategies import OWN_FLAGS, STRATEGIES
from fairseq_specdec.engine.threads import set_threads
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub import SpeculativeTranslator, loading
from fairseq_specdec.hub.command_line import translator_of, verifier_of
from fairseq_specdec.hub.decoding import SETTLED

from .cli import Bound
from .config_file import blamed, entries
from .flags import DECODING, LIMITS, Limits, get_parser, pair_parser

try:
    import uvicorn

    from .app import make_app
    from .guard import Access, token_of
    from .pairs import Pairs
    from .service import Service
except ModuleNotFoundError as missing:
    raise UsageError(
        "", f"serving needs {missing.name}", "pip install 'fairseq-specdec[serve]'"
    ) from missing

logger = logging.getLogger(__name__)

# Sentences of a demo pair's held-out text that the page offers: long enough to see blocks.
_EXAMPLES, _LENGTHS = 3, range(50, 121)


class Server(NamedTuple):
    """Ready to serve."""

    uvicorn: Any
    socket: socket.socket
    url: str
    pairs: Pairs


class Patient(uvicorn.Server):
    """A server whose end a second signal does not cut short: threads would stay. It does not raise
    the signal again at its end: the process ends with status 0."""

    interrupted = False

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.should_exit = True
        self.interrupted = sig == signal.SIGINT


def made(words: Sequence[str], bound: Bound) -> Server:
    """The server of a command line, with its models loaded."""
    args = brief(get_parser()).parse_args(list(words))
    token = token_of(args.token_file)
    if token is None and not bound.loopback:
        logger.warning("--host %s without a token: whoever reaches it can use it", args.host)
    limits = Limits(**{name: getattr(args, "max_" + name) for name in LIMITS})
    pairs = Pairs(_services(args, limits))
    logging.getLogger("uvicorn.access").disabled = True  # addresses of requests may hold text
    open_port = bound.port if bound.loopback and token is None else None
    config = uvicorn.Config(
        make_app(pairs, Access(token, open_port)),
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections + 1,  # uvicorn refuses the one that reaches it
        timeout_keep_alive=math.ceil(limits.arrival),
        # What was accepted is answered before its deadline.
        timeout_graceful_shutdown=math.ceil(limits.deadline) + 1,
    )
    return Server(Patient(config), bound.socket, bound.url, pairs)


def _services(args: argparse.Namespace, limits: Limits) -> list[Service]:
    """The pairs of a command line, ready to translate."""
    if args.config is None:
        return [_service(args, limits, args.demo)]
    services: list[Service] = []
    with contextlib.ExitStack() as undone:
        for place, entry in _entries(args).items():
            with blamed(place):
                service = _service(entry, limits)
                undone.callback(service.close)
                if service.languages in [each.languages for each in services]:
                    languages = "-".join(service.languages)
                    raise UsageError("", f"{languages} is there already", "leave one out")
            services.append(service)
        undone.pop_all()
    return services


def _entries(args: argparse.Namespace) -> dict[str, argparse.Namespace]:
    """The pairs of ``--config``."""
    given = vars(args)
    for action in pair_parser()._actions:
        if given.get(action.dest, action.default) != action.default:
            raise UsageError(
                action.option_strings[-1], "with --config it is a field of a pair", "leave it out"
            )
    if args.demo or args.model is not None:
        raise UsageError("--config", "names the models", "leave --demo and the model out")
    return entries(args.config, pair_parser())


def _service(args: argparse.Namespace, limits: Limits, demo: bool = False) -> Service:
    flags = {name: getattr(args, name) for name in DECODING if hasattr(args, name)}
    own: dict[str, Any] = {}
    if demo:
        # Each goes to the strategies that use it.
        names = [name for name in flags if name in OWN_FLAGS and name not in SETTLED]
        own = {name: flags.pop(name) for name in names if args.strategy not in OWN_FLAGS[name]}
        flags["keep_weights"] = True  # fairseq itself decodes with them
    set_threads(1)  # workers are what there is of threads
    translator = translator_of(args, flags)
    service = Service(translator, limits, args.workers)
    # Greedy decoding is made by the first race.
    service.racers = dict.fromkeys(("greedy", translator.strategy), {})
    if demo:
        service.stock = True
        service.racers = _racers(translator, own)
        service.examples = _examples(args, translator.languages[0])
    return service


def _racers(translator: SpeculativeTranslator, own: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The strategies that the model allows, each once, with their own flags; their first decoding
    is done."""
    found: dict[int, tuple[str, dict[str, Any]]] = {}
    for name in STRATEGIES:
        if id(STRATEGIES[name]) in found:  # another name of the same
            continue
        flags = {flag: value for flag, value in own.items() if name in OWN_FLAGS[flag]}
        with contextlib.suppress(ValueError):
            translator.translate(".", strategy=name, **flags)
            found[id(STRATEGIES[name])] = name, flags
    return dict(found.values())


def _examples(args: argparse.Namespace, language: str) -> list[str]:
    """The first fitting sentences of the held-out text beside a demo pair."""
    verifier, data = verifier_of(args)
    folder = loading.find(verifier, None, data, "greedy").data or ""
    path = os.path.join(folder, f"heldout.{language}")
    if not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8", errors="replace") as lines:
        fitting = (line.strip() for line in lines if len(line.strip()) in _LENGTHS)
        return list(itertools.islice(fitting, _EXAMPLES))
