"""Recorded passes and drafts as on a GPU: nothing waits in them, and few launches are left."""

import pytest
from device_decoding import BATCHES, device_generator, guarded
from device_guard import DeviceGuard
from device_systems import SYSTEMS, count
from plain_graphs import GuardedRecorder, plain_graphs
from toy_strategies import TOYS, flags, stock, tokens

from fairseq_specdec.decoding import generator as generator_module


@pytest.fixture
def record(monkeypatch):
    chosen = plain_graphs(GuardedRecorder)
    monkeypatch.setattr(generator_module, "graphs_for", chosen)
    return chosen.made


def replayed(case, half=False):
    """Decode a batch of 8 with recordings, in a guard: what was found.

    Raises:
        AssertionError: something in a recording made the host wait, or copied from or to it.
    """
    with DeviceGuard() as guard:
        GuardedRecorder.clear(guard)
        outputs = guarded(device_generator(case, half), guard, BATCHES[8])
        assert sum(GuardedRecorder.kernels.values()) > 0
        assert not GuardedRecorder.waits and not GuardedRecorder.copies
        return tokens(h[0] for h in outputs)


@pytest.mark.parametrize(
    "case", ["greedy", "iad", "gad", "gad-attached", "gad++-budget", "sps", "blockwise"]
)
def test_nothing_waits_in_a_recording(case, record):
    assert replayed(case) == tokens(stock([TOYS[case].verifier()], BATCHES[8], flags()))
    assert not record[0].broken


@pytest.mark.parametrize("case", ["greedy", "gad", "gad-attached", "sps"])
def test_recordings_in_half_precision(case, record):
    assert all(output[-1] == 2 for output in replayed(case, half=True))
    assert not record[0].broken


# Most launches of an iteration of 8 rows with graphs, each of which is one: the table of
# device_systems.py.
MOST_LAUNCHES = {
    "greedy": 18,
    "iad": 18,
    "gad attached with chain, k = 10": 46,
    "gad++ attached with chain, k = 10": 64,
    "gad 12+2, k = 25": 43,
    "gad++ 12+2, k = 25": 61,
    "gad 6+6 bidirectional, k = 25": 155,
    "sps 6+1": 117,
    "blockwise, k = 8": 49,
}


@pytest.mark.parametrize("name", MOST_LAUNCHES)
def test_launches_of_an_iteration_with_graphs(name):
    counted, kernels = count(SYSTEMS[name], rows=8, graphs=True)
    assert counted.launches <= MOST_LAUNCHES[name], kernels.most_common(20)
    assert counted.waits <= 1 and counted.copies == (name == "iad")  # its draft, made on the host
    assert not GuardedRecorder.waits and not GuardedRecorder.copies
