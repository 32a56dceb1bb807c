"""A server in a thread, and a client of it."""

import contextlib
import http.client
import json
import threading
import time

from toy_pair import text_of
from toy_translation import sentences

from fairseq_specdec.serve.cli import start

TEXTS = [text_of(line) for line in sentences(12, seed=9)]


class Client:
    """Asks a served model over one connection at a time."""

    def __init__(self, server):
        self.server = server
        self.url = server.url
        self.port = server.socket.getsockname()[1]

    @property
    def service(self):
        """Of the only pair."""
        (only,) = self.server.pairs.services
        return only

    def ask(self, path, body=None, **headers):
        """(status, answer, headers) of a GET, or of a POST of a body."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, 60)) as line:
            line.request("GET" if body is None else "POST", path, body, sent)
            answer = line.getresponse()
            content, kind = answer.read(), answer.headers["Content-Type"]
            content = json.loads(content) if kind == "application/json" else content.decode()
            return answer.status, content, answer.headers

    def translate(self, q, **fields):
        return self.ask("/translate", {"q": q, "source": "src", "target": "tgt", **fields})


def until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@contextlib.contextmanager
def serving(*words, device=True):
    """A client of a server with this command line, in a thread."""
    flags = ["--device", "cpu"] if device else []
    server = start([*map(str, words), "--port", "0", *flags])
    thread = threading.Thread(target=server.run, kwargs={"sockets": [server.socket]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield Client(server)
    finally:
        server.should_exit = True
        thread.join()
