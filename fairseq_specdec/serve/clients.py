"""Who waits for an answer, and for how long."""

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request

from .bodies import RefusedError, shown
from .scheduler import LateError

HEADER = "x-deadline"


class GoneError(Exception):
    """The client closed its connection: there is nobody to answer."""


@dataclasses.dataclass(frozen=True)
class Client:
    """Of one request."""

    gone: Callable[[], Awaitable[Any]]  # returns when the client has closed its connection
    seconds: float  # in which it is answered
    until: float  # ``time.monotonic`` when they have passed

    async def first(self, awaitable: Any) -> Any:
        """The result of what is awaited, which is cancelled if that comes too late. Raises
        LateError: the deadline passed. Raises GoneError: the client left."""
        awaited = asyncio.ensure_future(awaitable)
        left = asyncio.ensure_future(self.gone())
        try:
            await asyncio.wait(
                {awaited, left},
                timeout=max(0.0, self.until - time.monotonic()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if awaited.done():
                return awaited.result()
            raise GoneError if left.done() else LateError
        finally:
            left.cancel()
            awaited.cancel()


def client_of(request: Request, longest: float) -> Client:
    """The client of a request whose body was read. ``request``: may hold in how many seconds it is
    of use (``X-Deadline``). ``longest``: most of them."""
    given = request.headers.get(HEADER)
    try:
        seconds = longest if given is None else min(float(given), longest)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise RefusedError(400, f"X-Deadline {shown(given)}: must be seconds, above 0")

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return Client(gone, seconds, time.monotonic() + seconds)
