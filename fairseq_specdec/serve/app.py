"""The application: routes, errors, beginning and end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

import fairseq_specdec

from .deepl import add_deepl
from .guard import LOCAL, Guard, refusal
from .libretranslate import add_libretranslate
from .metrics import Metrics
from .pairs import Pairs
from .race import add_races


def make_app(pairs: Pairs, token: str | None, port: int | None) -> Guard:
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
    keyed = token is not None
    add_libretranslate(app, pairs, keyed)
    add_deepl(app, pairs)
    add_races(app, pairs, keyed)
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
