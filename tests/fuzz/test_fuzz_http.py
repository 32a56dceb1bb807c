"""Requests by mutation: specdec-demo's server answers or refuses each, and lives."""

import json
import threading

import pytest
from http_requests import answer, asked, mutated
from toy_pair import write_pair

from fairseq_specdec.demo.racers import Pair, load_racers
from fairseq_specdec.demo.server import HEADERS, DemoServer

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


def test_requests(fuzz, server):
    port = server.server_port
    for seed in fuzz.seeds():
        random = fuzz.random(seed)
        body = json.dumps(random.choice(BODIES)).encode()
        verb, path = random.choice((("GET", "/?text=x"), ("POST", "/race"), ("PUT", "/")))
        request = mutated(random, asked(port, verb, path, body))
        head, _, content = answer(port, request).partition(b"\r\n\r\n")
        status = head[9:12].decode() if head else "closed"
        fuzz.counts[status] += 1
        if head:
            assert head.startswith(b"HTTP/1.0 ") and status[0] in "245", (seed, head)
            names = {line.split(": ")[0] for line in head.decode().split("\r\n")[1:]}
            assert set(HEADERS) <= names, (seed, head)
        if status[0] in "45" and content:
            assert json.loads(content)["error"], seed
        if seed % 20 == 0:
            good = answer(port, asked(port, "POST", "/race", b'{"text": "w1 w2"}'))
            assert json.loads(good.splitlines()[-1])["event"] == "end", seed
