"""What every request passes before a route sees it: other sites, the body at once, the token."""

from __future__ import annotations

import asyncio
import dataclasses
import hmac
import logging
import os
import stat
import time
from collections.abc import Container, Mapping, MutableMapping
from typing import Any, NamedTuple

from pydantic import BaseModel
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse

from fairseq_specdec.errors import UsageError

from .bodies import RefusedError, asked
from .flags import Limits
from .metrics import Metrics

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
# Status of a request whose client left, as others count it.
GONE = 499
_SHORTEST = 16
# For orchestrators and browsers, which have no token; the page asks for it.
_OPEN = ("/", "/health", "/ready")
# LibreTranslate's clients send the token as a field.
_IN_FIELDS = ("/translate", "/translate/stream", "/detect", "/languages", "/frontend/settings")


class Access(NamedTuple):
    """Who is answered. ``token``: that requests must bring; None for none. ``port``: of a loopback
    server without a token, which answers no other site; None for others."""

    token: str | None
    port: int | None


class _Key(BaseModel):
    api_key: Any = None


def token_of(file: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The token in a file, or that of the environment; None for none."""
    name = f"--token-file {file}" if file is not None else VARIABLE
    if file is not None:
        with open(file, encoding="utf-8", errors="replace") as stream:
            if os.fstat(stream.fileno()).st_mode & stat.S_IROTH:
                logger.warning("%s: others can read it; use chmod 600 %s", name, file)
            token = stream.read(4096).strip()
    elif VARIABLE in environment:
        token = environment[VARIABLE].strip()
    else:
        return None
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            name,
            f"a token is {_SHORTEST} or more letters, digits and signs",
            "python -c 'import secrets; print(secrets.token_urlsafe())' makes one",
        )
    return token


def refusal(error: RefusedError) -> JSONResponse:
    """The answer to a refused request: ``error`` as of LibreTranslate, ``message`` as of DeepL."""
    body = {"error": str(error), "message": str(error)}
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return JSONResponse(body, error.status, headers)


@dataclasses.dataclass(eq=False)
class Guard:
    """ASGI middleware around all routes."""

    app: Any
    paths: Container[str]
    limits: Limits
    access: Access
    metrics: Metrics

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status = GONE

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            headers = Headers(scope=scope)
            # A link may lead to the page, whose address starts nothing.
            if self.access.port is not None and scope["path"] != "/":
                self._check_site(headers)
            body = await self._body(headers, receive)
            await self._check_token(scope, _replaying(body, receive))
            await self.app(scope, _replaying(body, receive), sending)
        except RefusedError as error:
            await refusal(error)(scope, receive, sending)
        except _LeftError:
            pass  # there is nobody to answer; it is counted below
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.count(path, status, time.perf_counter() - began)

    def _check_site(self, headers: Headers) -> None:
        """Refuse what a page of another site sends; its names for this one are refused by
        ``TrustedHostMiddleware``."""
        port = self.access.port
        ours = {f"http://{host}:{port}" for host in LOCAL}
        ours |= {f"http://{host}" for host in LOCAL if port == 80}
        origins = {origin.lower() for origin in headers.getlist("origin")}
        sites = set(headers.getlist("sec-fetch-site"))
        if not origins <= ours or not sites <= {"same-origin", "none"}:
            raise RefusedError(403, "requests of other sites are not answered")

    async def _body(self, headers: Headers, receive: Any) -> bytes:
        """The whole body. Raises RefusedError: it is too long, or does not arrive in time."""
        most = self.limits.body
        length = headers.get("content-length", "0")
        if len(length) > 12 or int(length) > most:
            raise RefusedError(413, f"the body has over {most} bytes; send less text")
        try:
            return await asyncio.wait_for(_read(receive, most), self.limits.arrival)
        except asyncio.TimeoutError:
            raise RefusedError(408, "the request did not arrive whole") from None

    async def _check_token(self, scope: dict[str, Any], receive: Any) -> None:
        """Refuse requests without the token. ``receive``: gives the body, which was read."""
        if self.access.token is None or scope["path"] in _OPEN:
            return
        # Authorization: Bearer TOKEN, and DeepL-Auth-Key TOKEN
        given: Any = Headers(scope=scope).get("authorization", "").rpartition(" ")[2]
        if not given and scope["path"] in _IN_FIELDS:
            request = Request(scope, receive)
            try:
                given = (await asked(request, _Key)).api_key
            except RefusedError:  # of a body that the route refuses again
                given = request.query_params.get("api_key")
        given = given.encode("utf-8", "replace") if isinstance(given, str) else b""
        # In a time that does not depend on how much of it is right.
        if not hmac.compare_digest(given, self.access.token.encode("utf-8")):
            raise RefusedError(403, "the token is missing or wrong")


class _LeftError(Exception):
    """The client closed its connection before its request was whole."""


async def _read(receive: Any, most: int) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _LeftError
        body += message.get("body", b"")
        if len(body) > most:
            raise RefusedError(413, f"the body has over {most} bytes; send less text")
        more = message.get("more_body", False)
    return body


def _replaying(body: bytes, receive: Any) -> Any:
    """ASGI's ``receive`` for a body that was read."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return left.pop() if left else await receive()

    return again
