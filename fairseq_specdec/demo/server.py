"""An HTTP server for one user of this machine: a page, and races as JSON lines."""

import contextlib
import errno
import json
import logging
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.local_http import ADDRESS, HEADERS, RefusedError, check_host, check_origin

from .page import Page, page_of
from .race import UnfitError, check_beam, check_names, check_stock, check_text, race
from .racers import Racers

logger = logging.getLogger(__name__)

# Bytes of a request's body: CHARACTERS of four bytes, escaped, fit.
BODY = 64 * 1024
# Bytes that are read and dropped of a body that is too large, so that the answer arrives.
DROPPED = 16 * BODY
# Seconds that a race waits for another one.
PATIENCE = 60.0


class DemoServer(ThreadingHTTPServer):
    """Listens at once; answers once ``enter`` has been called and ``serve_forever`` runs. ``port``:
    0 picks a free one."""

    daemon_threads = True

    def __init__(self, port: int, repeats: int = 3) -> None:
        self.repeats = repeats
        # One race at a time: two would slow each other down and time nothing.
        self.turn = threading.Lock()
        self.racers: Racers | None = None
        self.page: Page | None = None
        try:
            super().__init__((ADDRESS, port), Handler)
        except OverflowError as error:
            raise UsageError(f"--port {port}", "must be from 0 to 65535") from error
        except OSError as error:
            raise UsageError(f"--port {port}", _why(error)) from error

    def server_bind(self) -> None:
        """Bind without asking a name server who 127.0.0.1 is, as HTTPServer does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, self.server_address[1]

    def enter(self, racers: Racers) -> None:
        """Set the strategies that race."""
        self.racers, self.page = racers, page_of(racers, self.repeats)

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that closed its connection is no error."""
        logger.debug("a connection from %s failed", client_address, exc_info=True)


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "already in use; give another, or --port 0 for any free one"
    if error.errno == errno.EACCES:
        return "not allowed; give one from 1024 on, or --port 0 for any free one"
    return f"cannot be opened ({error.strerror or error}); give another"


class Handler(BaseHTTPRequestHandler):
    """``GET /`` is the page, ``POST /race`` a race."""

    server: DemoServer
    server_version = "specdec-demo"
    sys_version = ""
    # Seconds to wait for a client's request.
    timeout = 30
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""
        logger.debug(format, *args)

    def do_GET(self) -> None:
        try:
            self._check_host()
            if self.path.split("?")[0] != "/":
                raise RefusedError(404, f"nothing here; the page is {self.server.url}")
        except RefusedError as refused:
            self._refuse(refused)
            return
        page = self.server.page
        assert page is not None, "serve_forever was called before enter"
        self._head(200, "text/html; charset=utf-8", {"Content-Security-Policy": page.policy})
        self.wfile.write(page.body)

    def do_POST(self) -> None:
        try:
            self._check_host()
            self._check_origin()
            if self.path != "/race":
                raise RefusedError(404, "nothing here; POST to /race")
            asked = self._body()
            racers = self.server.racers
            assert racers is not None, "serve_forever was called before enter"
            try:
                beam = check_beam(asked.get("beam"))
                names = check_names(asked.get("strategies"), racers, beam)
                stock = check_stock(asked.get("stock"))
                text = check_text(asked.get("text"), racers.translators)
            except UnfitError as error:
                raise RefusedError(400, str(error)) from error
        except RefusedError as refused:
            self._refuse(refused)
            return
        self._head(200, "application/x-ndjson; charset=utf-8")
        events = self._race(racers, text, names, beam, stock)
        with contextlib.closing(self._in_turn(events)) as lines:  # type: ignore[type-var]
            for event in lines:
                try:
                    self.wfile.write(json.dumps(event, allow_nan=False).encode("ascii") + b"\n")
                except OSError:  # the client has closed the connection, or reads no more
                    return

    def _race(
        self, racers: Racers, text: str, names: list[str], beam: int, stock: bool
    ) -> Iterator[dict[str, Any]]:
        """The events; translators are made in the race's turn, where the beam is a new one."""
        own = racers.stock(beam) if stock else None
        yield from race(racers.at(beam), text, names, self.server.repeats, own)

    def _in_turn(self, events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The events, once no other race runs; what fails becomes an ``error`` event."""
        turn = self.server.turn
        if not turn.acquire(blocking=False):
            yield {"event": "waiting"}
            if not turn.acquire(timeout=PATIENCE):
                yield _error("Another race is still running: try again when it has ended.")
                return
        try:
            with contextlib.closing(events):  # type: ignore[type-var]
                yield from events
        except Exception as error:
            logger.exception("a race failed")
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            yield _error(f"Decoding failed ({first}); the terminal says more.")
        finally:
            turn.release()

    def _check_host(self) -> None:
        check_host(self.headers.get_all("Host", []), self.server.server_port)

    def _check_origin(self) -> None:
        """No other site may start a race."""
        origins = self.headers.get_all("Origin", [])
        sites = self.headers.get_all("Sec-Fetch-Site", [])
        check_origin(origins, sites, self.server.server_port)

    def _body(self) -> dict[str, Any]:
        if self.headers.get_content_type() != "application/json":
            raise RefusedError(415, "send JSON, with Content-Type: application/json")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise RefusedError(411, "send a Content-Length")
        if len(length) > 12 or int(length) > BODY:
            self._drop(min(int(length[:12]), DROPPED))
            raise RefusedError(413, f"the request has over {BODY} bytes, which is too long")
        try:
            asked = json.loads(self.rfile.read(int(length)).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise RefusedError(400, "the request is no JSON") from error
        except OSError as error:
            raise RefusedError(408, "the request did not arrive whole") from error
        if not isinstance(asked, dict):
            raise RefusedError(400, 'send an object: {"text": ..., "strategies": [...]}')
        return asked

    def _drop(self, length: int) -> None:
        with contextlib.suppress(OSError):
            while length > 0:
                got = len(self.rfile.read(min(length, BODY)))
                length = length - got if got else 0

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what the base class refuses (501, 400, 414, 431, 505) as everything else."""
        self._refuse(RefusedError(code, message or self.responses[code][0]))

    def _refuse(self, refused: RefusedError) -> None:
        body = json.dumps({"error": str(refused)}).encode("ascii")
        with contextlib.suppress(OSError):
            self._head(refused.status, "application/json")
            if self.command != "HEAD":
                self.wfile.write(body)

    def _head(self, status: int, kind: str, more: dict[str, str] | None = None) -> None:
        # A request line that is none or has no version counts as HTTP/0.9, which has no headers.
        self.request_version = self.protocol_version
        policy = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'"}
        self.send_response(status)
        for name, value in {"Content-Type": kind, **HEADERS, **policy, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()


def _error(message: str) -> dict[str, Any]:
    return {"event": "error", "message": message}
