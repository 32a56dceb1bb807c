"""The application: routes, errors, beginning and end."""

from __future__ import annotations

import contextlib
from typing import Any, AsyncIterator, Dict, Optional

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import fairseq_specdec
from fairseq_specdec.io.local_http import RefusedError

from .access import Access
from .clients import GoneError
from .deepl import deepl
from .guard import GONE, Guard, refusal
from .libretranslate import libretranslate
from .metrics import Metrics
from .opennmt import opennmt
from .pairs import Pairs
from .streaming import streaming


def make_app(pairs: Pairs, token: Optional[str], port: Optional[int]) -> Any:
    """The ASGI application of some pairs, which it closes at its end. ``token``: that requests must
    bring; None for none. ``port``: of a loopback server, which answers no other site without a
    token; None for others."""

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        pairs.close()

    # No page of FastAPI's: it loads scripts of another host.
    app = FastAPI(
        title="specdec-serve", version=fairseq_specdec.__version__, docs_url=None, redoc_url=None,
        redirect_slashes=False, lifespan=life,
    )  # fmt: skip
    app.include_router(libretranslate(pairs))
    app.include_router(streaming(pairs))
    app.include_router(deepl(pairs))
    app.include_router(opennmt(pairs))
    metrics = Metrics(pairs)
    _add_states(app, pairs, metrics)
    _add_errors(app)
    paths = app.openapi()["paths"]
    return Guard(app, paths, pairs.limits, Access(token, port), metrics)


def _add_states(app: FastAPI, pairs: Pairs, metrics: Metrics) -> None:
    @app.get("/health")
    async def health() -> Dict[str, str]:
        """Whether the process lives."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> Dict[str, str]:
        """Whether requests are taken."""
        if pairs.stopping:
            raise RefusedError(503, "the server ends")
        return {"status": "ok"}

    @app.get("/metrics")
    async def counters() -> Response:
        """Counters for Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> JSONResponse:
        return refusal(error)

    @app.exception_handler(HTTPException)
    async def failed(request: Request, error: HTTPException) -> JSONResponse:
        return refusal(RefusedError(error.status_code, str(error.detail)))

    @app.exception_handler(GoneError)
    async def gone(request: Request, error: GoneError) -> Response:
        return Response(status_code=GONE)  # nobody reads it
