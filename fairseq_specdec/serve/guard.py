"""What every request passes before a route sees it: other sites, the body at once, the token."""

from __future__ import annotations

import asyncio
import dataclasses
import hmac
import logging
import os
import re
import stat
import time
from collections.abc import Container
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairseq_specdec.errors import UsageError

from .bodies import fields_of
from .limits import Limits
from .metrics import Metrics
from .service import GONE

logger = logging.getLogger(__name__)

VARIABLE = "SPECDEC_SERVE_TOKEN"
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# Names by which this machine's own clients know a loopback server.
LOCAL = ("127.0.0.1", "localhost")
_TOKEN = re.compile("[!-~]{16,}")
# For orchestrators and browsers, which have no token; the page prompts for it.
_OPEN = ("/", "/health", "/ready")
# LibreTranslate's clients send the token as a field.
_IN_FIELDS = ("/translate", "/translate/stream", "/detect", "/languages", "/frontend/settings")


def token_of(file: str | None) -> str | None:
    """The token in a file, or that of the environment; None for none."""
    name, token = VARIABLE, os.environ.get(VARIABLE)
    if file is not None:
        name = f"--token-file {file}"
        with open(file, encoding="utf-8", errors="replace") as stream:
            if os.fstat(stream.fileno()).st_mode & stat.S_IROTH:
                logger.warning("%s: others can read it; use chmod 600 %s", name, file)
            token = stream.read(4096)
    token = None if token is None else token.strip()
    if token is not None and not _TOKEN.fullmatch(token):
        remedy = "python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
        raise UsageError(name, "a token is 16 or more letters, digits and signs", remedy)
    return token


def refusal(error: HTTPException) -> JSONResponse:
    """The answer to a refused request: ``error`` for LibreTranslate, ``message`` for DeepL."""
    body = {"error": error.detail, "message": error.detail}
    return JSONResponse(body, error.status_code, error.headers)


@dataclasses.dataclass(eq=False)
class Guard:
    """ASGI middleware around all routes."""

    app: ASGIApp
    paths: Container[str]  # of the routes, by which requests are counted
    limits: Limits
    token: str | None  # that requests must bring
    port: int | None  # of a loopback server without a token, which answers no other site
    metrics: Metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status = GONE

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            # A link may lead to the page, whose address starts nothing.
            if self.port is not None and scope["path"] != "/":
                self._check_site(Headers(scope=scope), self.port)
            scope["fields"] = fields = await self._fields(scope, receive)
            self._check_token(Headers(scope=scope), scope["path"], fields.get("api_key"))
            await self.app(scope, receive, sending)
        except HTTPException as error:
            await refusal(error)(scope, receive, sending)
        except ClientDisconnect:
            pass  # there is nobody to answer; it is counted below
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.count(path, status, time.perf_counter() - began)

    def _check_site(self, headers: Headers, port: int) -> None:
        """Refuse what a page of another site sends; its names for this one are refused by
        ``TrustedHostMiddleware``."""
        ours = {f"http://{host}:{port}" for host in LOCAL}
        ours |= {f"http://{host}" for host in LOCAL if port == 80}
        origins = {origin.lower() for origin in headers.getlist("origin")}
        sites = set(headers.getlist("sec-fetch-site"))
        if not origins <= ours or not sites <= {"same-origin", "none"}:
            raise HTTPException(403, "requests of other sites are not answered")

    async def _fields(self, scope: Scope, receive: Receive) -> dict[str, Any]:
        """What the whole body says. Raises HTTPException: it is too long, or does not arrive in
        time."""
        size, most = 0, self.limits.max_body

        async def receiving() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > most:
                raise HTTPException(413, f"the body has over {most} bytes; send less text")
            return message

        try:
            reading = fields_of(Request(scope, receiving))
            return await asyncio.wait_for(reading, self.limits.max_arrival)
        except asyncio.TimeoutError:
            raise HTTPException(408, "the request did not arrive whole") from None

    def _check_token(self, headers: Headers, path: str, field: object) -> None:
        """Refuse a request without the token. ``field``: ``api_key``."""
        if self.token is None or path in _OPEN:
            return
        # Authorization: Bearer TOKEN, and DeepL-Auth-Key TOKEN
        given: object = headers.get("authorization", "").rpartition(" ")[2]
        if not given and path in _IN_FIELDS:
            given = field
        sent = given.encode("utf-8", "replace") if isinstance(given, str) else b""
        # In a time that does not depend on how much of it is right.
        if not hmac.compare_digest(sent, self.token.encode("utf-8")):
            raise HTTPException(403, "the token is missing or wrong")
