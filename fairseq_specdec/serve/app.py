"""The application: routes, errors, beginning and end."""

from __future__ import annotations

import contextlib
import html
from collections.abc import AsyncIterator

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

import fairseq_specdec

from .bodies import RefusedError
from .clients import GoneError
from .deepl import deepl
from .guard import GONE, LOCAL, Access, Guard, refusal
from .libretranslate import libretranslate
from .metrics import Metrics
from .pairs import Pairs
from .race import races
from .streaming import streaming

_POLICY = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}
_LIST = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>specdec-serve</title><h1>specdec-serve</h1>
<p><a href="openapi.json">openapi.json</a> describes the fields.</p><dl>{}</dl></html>
"""


def make_app(pairs: Pairs, access: Access) -> Guard:
    """The ASGI application of some pairs, which it closes at its end."""

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        pairs.close()

    # No page of FastAPI's: it loads scripts of another host.
    app = FastAPI(
        title="specdec-serve", version=fairseq_specdec.__version__, docs_url=None, redoc_url=None,
        redirect_slashes=False, lifespan=life,
    )  # fmt: skip
    if access.port is not None:
        app.add_middleware(
            TrustedHostMiddleware, allowed_hosts=list(LOCAL), www_redirect=False
        )  # fmt: skip
    keyed = access.token is not None
    for router in (libretranslate(pairs, keyed), streaming(pairs), deepl(pairs)):
        app.include_router(router)
    app.include_router(races(pairs, keyed))
    metrics = Metrics(pairs)
    _add_states(app, pairs, metrics)
    _add_errors(app)
    return Guard(app, app.openapi()["paths"], pairs.limits, access, metrics)


def _add_states(app: FastAPI, pairs: Pairs, metrics: Metrics) -> None:
    @app.get("/health")
    async def health() -> dict[str, str]:
        """Whether the process lives."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> dict[str, str]:
        """Whether requests are taken."""
        if pairs.stopping:
            raise RefusedError(503, "the server ends")
        return {"status": "ok"}

    @app.get("/metrics")
    async def counters() -> Response:
        """Counters for Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/docs", response_class=HTMLResponse)
    async def docs() -> HTMLResponse:
        """This list."""
        rows = [
            f"<dt><code>{method.upper()} {html.escape(path)}</code></dt>"
            f"<dd>{html.escape(route.get('description', ''))}</dd>"
            for path, methods in app.openapi()["paths"].items()
            for method, route in methods.items()
        ]
        return HTMLResponse(_LIST.format("".join(rows)), headers=_POLICY)


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
