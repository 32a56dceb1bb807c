"""From a command line to a server: its address, models, routes and uvicorn."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import ipaddress
import logging
import math
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractContextManager
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import fairseq_specdec
from fairseq_specdec.decoding.strategies import OWN_FLAGS, STRATEGIES
from fairseq_specdec.engine.backend import set_threads
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.hub.cli import flags_of, translator_of
from fairseq_specdec.hub.decoding import SETTLED

from .deepl import add_deepl
from .guard import LOCAL, Guard, refusal, token_of
from .libretranslate import add_libretranslate
from .limits import Limits
from .metrics import Metrics
from .pairs import Pairs
from .race import STOCK, add_races
from .service import Service

logger = logging.getLogger(__name__)


class Server(uvicorn.Server):
    """Ready to serve some pairs on a socket that is bound."""

    socket: socket.socket
    url: str
    pairs: Pairs

    def handle_exit(self, sig: int, frame: object) -> None:
        """End. A second signal does not cut that short: threads would stay. The signal is not
        raised again at the end: the process ends with status 0."""
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket. ``port``: 0 for any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((host, port), family=family, backlog=2048, dualstack_ipv6=both)
    except (OSError, TypeError, UnicodeError) as error:
        problem = getattr(error, "strerror", None) or error
        remedy = "give another, or --port 0 for any free one"
        raise UsageError(f"--host {host} --port {port}", problem, remedy) from error


def made(
    args: argparse.Namespace,
    entries: Iterable[tuple[AbstractContextManager[None], argparse.Namespace]],
) -> Server:
    """The server of a command line, with its models loaded. ``entries``: its pairs."""
    token = token_of(args.token_file)
    with contextlib.ExitStack() as undone:
        bound = undone.enter_context(listen(args.host, args.port))  # before the models load
        host, port = bound.getsockname()[:2]
        loopback = ipaddress.ip_address(host).is_loopback
        if token is None and not loopback:
            logger.warning("--host %s without a token: whoever reaches it can use it", args.host)
        names = [each.name for each in dataclasses.fields(Limits) if hasattr(args, each.name)]
        limits = Limits(**{name: getattr(args, name) for name in names})
        services: list[Service] = []
        for place, entry in entries:
            with place:
                service = _service(entry, limits)
                undone.callback(service.close)
                if service.languages in [each.languages for each in services]:
                    languages = "-".join(service.languages)
                    raise UsageError("", f"{languages} is there already", "leave one out")
            services.append(service)
        undone.pop_all()
    pairs = Pairs(services)
    logging.getLogger("uvicorn.access").disabled = True  # addresses of requests may hold text
    config = uvicorn.Config(
        _application(pairs, token, port if loopback and token is None else None),
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.max_connections + 1,  # uvicorn refuses the one that reaches it
        timeout_keep_alive=math.ceil(limits.max_arrival),
        # What was accepted is answered before its deadline.
        timeout_graceful_shutdown=math.ceil(limits.max_deadline) + 1,
    )
    server = Server(config)
    server.socket, server.pairs = bound, pairs
    server.url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    return server


def _application(pairs: Pairs, token: str | None, port: int | None) -> Guard:
    """The ASGI application of some pairs, which it closes at its end. ``token``, ``port``: as
    ``Guard`` has them."""

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        pairs.close()

    # No page of FastAPI's: it loads scripts of another host.
    app = FastAPI(
        title="specdec-serve", version=fairseq_specdec.__version__, docs_url=None, redoc_url=None,
        redirect_slashes=False, lifespan=life,
    )  # fmt: skip
    if port is not None:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(LOCAL), www_redirect=False)
    add_libretranslate(app, pairs, token is not None)
    add_deepl(app, pairs)
    add_races(app, pairs, token is not None)
    metrics = Metrics(pairs)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Whether the process lives."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> dict[str, str]:
        """Whether requests are taken."""
        if any(each.scheduler.stopping for each in pairs.services):
            raise HTTPException(503, "the server ends")
        return {"status": "ok"}

    @app.get("/metrics")
    async def counters() -> Response:
        """Counters for Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        return refusal(error)

    return Guard(app, app.openapi()["paths"], pairs.limits, token, port, metrics)


def _service(args: argparse.Namespace, limits: Limits) -> Service:
    flags = flags_of(args)
    own: dict[str, Any] = {}
    demo = getattr(args, "demo", False)
    if demo:
        # Each goes to the strategies that use it.
        names = [name for name in flags if name in OWN_FLAGS and name not in SETTLED]
        own = {name: flags.pop(name) for name in names if args.strategy not in OWN_FLAGS[name]}
        flags["keep_weights"] = True  # fairseq itself decodes with them
    set_threads(1)  # workers are what there is of threads
    translator = translator_of(args, flags, learn_vocabulary=args.learn_vocabulary)
    service = Service(translator, limits, args.workers)
    service.again = functools.partial(_service, args, limits)
    # Greedy decoding is made by the first race.
    service.racers = dict.fromkeys(("greedy", service.translator.strategy), {})
    if demo:
        service.racers = {**_racers(service.translator, own), STOCK: {}}
    return service


def _racers(translator: SpeculativeTranslator, own: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The strategies that the model allows, each once, with their own flags; their first decoding
    is done."""
    found: dict[str, dict[str, Any]] = {}
    for name, strategy in STRATEGIES.items():
        flags = {flag: value for flag, value in own.items() if name in OWN_FLAGS[flag]}
        if all(STRATEGIES[other] is not strategy for other in found):  # no other name of the same
            with contextlib.suppress(ValueError):
                translator.translate(".", strategy=name, **flags)
                found[name] = flags
    return found
