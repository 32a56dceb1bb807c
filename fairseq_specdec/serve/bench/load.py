"""Requests to a server of this machine, bounded in number and time; every answer is compared."""

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from fairseq_specdec.io.local_http import ADDRESS

# In place of a status: no whole answer came; the connection was refused, or closed by a server that
# had not read the request (its system then resets it).
LOST, UNREAD = 0, -1
# Seconds after which a request counts as lost.
PATIENCE = 120
# Seconds after which an idle connection is not used again; the server closes it after 5.
_IDLE = 2.0
_SEED = 7

Connection = tuple[Any, Any]


class Answer(NamedTuple):
    """What one request came to."""

    status: int  # of HTTP, ``LOST`` or ``UNREAD``
    seconds: float  # from sending it to the end of its answer
    right: bool  # the text is the expected one
    again: float = 0.0  # seconds after which a refused client may ask again


class Bound(NamedTuple):
    """Where a load ends, whichever comes first. ``requests``: most of them. ``seconds``: in which
    they are sent. What was sent is waited for."""

    requests: int
    seconds: float


class Loader:
    """Asks ``POST /translate`` for single texts, in their order, over and over."""

    def __init__(
        self, port: int, texts: Sequence[str], expected: Sequence[str], languages: tuple[str, str]
    ) -> None:
        source, target = languages
        self._port = port
        self._expected = expected
        self._requests = [
            self.request("/translate", {"q": text, "source": source, "target": target})
            for text in texts
        ]
        self._open: list[tuple[float, Connection]] = []

    def request(self, path: str, fields: Any) -> bytes:
        """The bytes of a POST of JSON."""
        body = json.dumps(fields).encode("ascii")
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {ADDRESS}:{self._port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode("ascii") + body

    async def closed(self, clients: int, bound: Bound) -> list[Answer]:
        """So many clients; each sends its next request when the one before is answered.

        Who is refused waits as long as the server asks.
        """
        until = time.perf_counter() + bound.seconds
        numbers = iter(range(bound.requests))
        answers: list[Answer] = []

        async def client() -> None:
            for number in numbers:
                answer = await self.ask(number)
                answers.append(answer)
                if time.perf_counter() + answer.again > until:
                    return
                await asyncio.sleep(answer.again)

        await asyncio.gather(*(client() for _ in range(clients)))
        return answers

    async def open_loop(self, rate: float, bound: Bound) -> list[Answer]:
        """So many requests a second, at random times (Poisson), whatever is answered."""
        chance = random.Random(_SEED)
        begun = at = time.perf_counter()
        asked = []
        for number in range(bound.requests):
            at += chance.expovariate(rate)
            if at - begun > bound.seconds:
                break
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            asked.append(asyncio.ensure_future(self.ask(number)))
        return list(await asyncio.gather(*asked))

    async def ask(self, number: int) -> Answer:
        """Send the request of a text; its number may be beyond the texts."""
        number %= len(self._expected)
        began = time.perf_counter()
        try:
            asked = self.exchange(self._requests[number])
            status, fields, answer = await asyncio.wait_for(asked, PATIENCE)
        except (asyncio.TimeoutError, asyncio.IncompleteReadError, ValueError):
            return Answer(LOST, time.perf_counter() - began, False)
        except OSError:
            return Answer(UNREAD, time.perf_counter() - began, False)
        seconds = time.perf_counter() - began
        right = isinstance(answer, dict) and answer.get("translatedText") == self._expected[number]
        return Answer(status, seconds, right, float(fields.get("retry-after", 0)))

    async def exchange(self, request: bytes) -> tuple[int, dict[str, str], Any]:
        """Status, header fields and content of the answer to a request.

        Raises:
            OSError, asyncio.IncompleteReadError: the connection ended before.
            ValueError: the answer is no JSON.
        """
        reader, writer = await self._connection()
        try:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").lower()
            fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
            body = await reader.readexactly(int(fields["content-length"]))
        except BaseException:
            writer.close()
            raise
        if fields.get("connection") == "close":
            writer.close()
        else:
            self._open.append((time.perf_counter(), (reader, writer)))
        return int(head.split(" ", 2)[1]), fields, json.loads(body.decode("utf-8"))

    async def _connection(self) -> Connection:
        while self._open:
            since, connection = self._open.pop()
            if time.perf_counter() - since < _IDLE:
                return connection
            connection[1].close()
        return await asyncio.open_connection(ADDRESS, self._port)

    async def close(self) -> None:
        """Close all connections."""
        for _, (_, writer) in self._open:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        self._open = []
