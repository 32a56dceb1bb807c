"""Whether a client is still there."""

from __future__ import annotations

from typing import Any, Awaitable, Callable

from starlette.requests import Request


def closed(request: Request) -> Callable[[], Awaitable[Any]]:
    """A function that returns when the client of a request, whose body was read, has gone."""

    async def wait() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return wait
