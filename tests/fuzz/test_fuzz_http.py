"""Requests by mutation: specdec-demo's server answers or refuses each, and lives."""

import json
import socket
import threading

import pytest
from toy_pair import write_pair

from fairseq_specdec.demo.racers import Pair, load_racers
from fairseq_specdec.demo.server import HEADERS, DemoServer

PIECES = (
    b"GET", b"POST", b" / ", b"/race", b"HTTP/1.1", b"\r\n", b"\r\n\r\n", b"\x00", b"\xff" * 9,
    b"Host: evil.example\r\n", b"Origin: null\r\n", b"Content-Length: -1\r\n", b"[" * 999, b"{}",
    b"Content-Length: 9999999999999\r\n", b"Transfer-Encoding: chunked\r\n", b'"beam": 1e999,',
    b"A" * 70000,
)  # fmt: skip
BODIES = ({"text": ""}, {"text": "w1 w2", "strategies": ["sps"]}, {"beam": [1]}, {"text": {}}, [])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = write_pair(tmp_path_factory.mktemp("pair"))
    server = DemoServer(0, repeats=0)
    server.enter(load_racers(Pair(str(folder), device="cpu"), ["greedy"], {}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def asked(server, verb, path, body):
    host = f"127.0.0.1:{server.server_port}"
    lines = [f"{verb} {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def mutated(random, request):
    for _ in range(random.randint(1, 4)):
        at, end = sorted(random.randrange(len(request) + 1) for _ in range(2))
        end = min(end, at + 20)
        request = random.choice((
            request[:at] + random.choice(PIECES) + request[at:],
            request[:at] + request[end:],
            request[:at] + bytes(random.randrange(256) for _ in range(3)) + request[end:],
            request[:end] + request[at:],
        ))  # fmt: skip
    return request


def answer(server, request):
    """All that comes back; b"" where the connection is closed without a word."""
    found = b""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as line:
        try:
            line.sendall(request)
            line.shutdown(socket.SHUT_WR)
            while True:
                part = line.recv(65536)
                if not part:
                    return found
                found += part
        except OSError:  # it closed with bytes of ours unread
            return found


def test_requests(fuzz, server):
    for seed in fuzz.seeds():
        random = fuzz.random(seed)
        body = json.dumps(random.choice(BODIES)).encode()
        verb, path = random.choice((("GET", "/?text=x"), ("POST", "/race"), ("PUT", "/")))
        head, _, content = answer(
            server, mutated(random, asked(server, verb, path, body))
        ).partition(b"\r\n\r\n")
        status = head[9:12].decode() if head else "closed"
        fuzz.counts[status] += 1
        if head:
            assert head.startswith(b"HTTP/1.0 ") and status[0] in "245", (seed, head)
            names = {line.split(": ")[0] for line in head.decode().split("\r\n")[1:]}
            assert set(HEADERS) <= names, (seed, head)
        if status[0] in "45" and content:
            assert json.loads(content)["error"], seed
        if seed % 20 == 0:
            good = answer(server, asked(server, "POST", "/race", b'{"text": "w1 w2"}'))
            assert json.loads(good.splitlines()[-1])["event"] == "end", seed
