"""The toy pair, raced."""

import threading

import pytest
from toy_pair import write_pair

from fairseq_specdec.demo.racers import Pair, load_racers
from fairseq_specdec.demo.server import DemoServer


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="session")
def racers(pair):
    """Whole drafts: else the toys' do not pay, and those of a race depend on the races before."""
    flags = {"top_beta": 3, "tau": 3.0, "draft_budget": 0}
    return load_racers(Pair(str(pair), device="cpu"), None, flags)


@pytest.fixture(scope="session")
def server(racers):
    """Serves the toy pair on a free port."""
    server = DemoServer(0, repeats=2)
    server.enter(racers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
