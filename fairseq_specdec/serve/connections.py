"""Connections that send nothing, too little or nonsense: what uvicorn itself does not bound."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .limits import Limits


def protocol(limits: Limits) -> Any:
    """uvicorn's protocol, with limits. uvicorn makes one object of it for each connection."""

    class Limited(H11Protocol):
        """Closes a connection on which no request's headers arrive in time.

        uvicorn bounds the time between two requests, from the answer to the first byte.
        """

        _arrival: asyncio.TimerHandle | None = None

        @property
        def _between_requests(self) -> bool:
            """Whether none is under way whose headers have arrived."""
            return self.cycle is None or bool(self.cycle.response_complete)

        def connection_made(self, transport: Any) -> None:
            """Begin to wait for a request; refuse what is one connection too many."""
            super().connection_made(transport)
            self.access_log = False  # addresses of requests may hold text
            if len(self.connections) > limits.connections:
                self._refuse(503, f"over {limits.connections} connections are open")
            else:
                self._wait()

        def data_received(self, data: bytes) -> None:
            """Wait on, or no more if this was the end of a request's headers."""
            super().data_received(data)
            if self._between_requests:
                self._wait()
            else:
                self._wait_no_more()

        def connection_lost(self, exc: Exception | None) -> None:
            """Drop the timer with the connection."""
            self._wait_no_more()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            """Answer what is no HTTP in JSON, as everything else."""
            if not self._between_requests and self.cycle.response_started:
                self.transport.close()  # in the middle of another answer
            else:
                self._refuse(400, "the request is no HTTP/1.1")

        def shutdown(self) -> None:
            """Finish the request; one that has not arrived whole is dropped."""
            if self.conn.their_state is h11.SEND_BODY:
                self.transport.close()
            else:
                super().shutdown()

        def _wait(self) -> None:
            if self._arrival is None and not self.transport.is_closing():
                self._arrival = self.loop.call_later(limits.arrival, self._late)

        def _wait_no_more(self) -> None:
            if self._arrival is not None:
                self._arrival.cancel()
                self._arrival = None

        def _late(self) -> None:
            self._arrival = None
            if self._between_requests:
                self._refuse(408, "no request arrived in time")

        def _refuse(self, status: int, message: str) -> None:
            body = json.dumps({"error": message, "message": message}).encode("ascii")
            head = (
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json"
                f"\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            self.transport.write(head.encode("ascii") + body)
            self.transport.close()

    return Limited
