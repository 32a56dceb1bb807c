"""What every request passes before a route sees it: sites, limits, and the body at once."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Container
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

from fairseq_specdec.io.local_http import HEADERS, RefusedError

from .access import OPEN, Access
from .limits import Limits
from .metrics import Metrics

# Status of a request whose client left, as others count it.
GONE = 499


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
    open: int = 0  # requests

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status = GONE

        async def sending(message: dict[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        self.open += 1
        try:
            await self._answer(scope, receive, sending)
        except RefusedError as error:
            await refusal(error)(scope, receive, sending)
        except _LeftError:
            pass  # there is nobody to answer; it is counted below
        finally:
            self.open -= 1
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.count(path, status, time.perf_counter() - began)

    async def _answer(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        headers = Headers(scope=scope)
        if self.open > self.limits.requests and scope["path"] not in OPEN:
            raise RefusedError(503, f"over {self.limits.requests} requests are open", 1)
        self.access.check_site(headers)
        body = await self._body(headers, receive)
        await self.access.check_token(scope, _replaying(body, receive))
        await self.app(scope, _replaying(body, receive), send)

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


class _LeftError(Exception):
    """The client closed its connection before its request was whole."""


async def _read(receive: Any, most: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _LeftError
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise RefusedError(413, f"the body has over {most} bytes; send less text")
        more = message.get("more_body", False)
    return b"".join(parts)


def _replaying(body: bytes, receive: Any) -> Any:
    """ASGI's ``receive`` for a body that was read."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return left.pop() if left else await receive()

    return again
