"""Recording and replaying: the order of what CUDA is asked, the buffers, and the rows' places."""

import contextlib
import inspect
from unittest import mock

import torch
from plain_graphs import PlainRecorder

from fairseq_specdec.engine.torch_graphs import CudaRecorder, Graphs, Recordings, StaticCache

LIKE = torch.zeros(1)


def test_what_is_asked_of_cuda(monkeypatch):
    """Warmed up on a stream of its own, that waits and is waited for; then captured."""
    asked, current, real = mock.MagicMock(), object(), inspect.signature(torch.cuda.graph.__init__)
    asked.graph_pool_handle.return_value = "pool"
    asked.current_stream.return_value.wait_stream.side_effect = lambda side: asked.waited(side)
    for name in ("Stream", "CUDAGraph", "graph", "graph_pool_handle", "current_stream", "stream"):
        monkeypatch.setattr(torch.cuda, name, getattr(asked, name))
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())

    def function():
        asked.function()
        return (LIKE,)

    replay, outputs = CudaRecorder(torch.device("cuda", 0)).record(function)
    replay()
    side = asked.Stream.return_value
    assert outputs == (LIKE,) and current is not side
    (given, named) = asked.graph.call_args
    real.bind(None, *given, **named)
    assert named == {"pool": "pool", "stream": side, "capture_error_mode": "thread_local"}
    names = [name for name, _, _ in asked.mock_calls]
    order = ["Stream().wait_stream", "stream", "stream().__enter__", "function", "waited", "graph",
             "graph().__enter__", "function", "graph().__exit__", "CUDAGraph().replay"]  # fmt: skip
    places = iter(names)
    assert all(name in places for name in order), names


def double(recordings, given, width, key="double"):
    """Twice the given numbers, by a pass of ``width`` columns; None where nothing is recorded."""
    outputs = recordings.run(key, lambda x: (2 * x,), [(given, (width,))])
    return None if outputs is None else outputs[0]


def recordings(**more):
    return Recordings(Graphs(recorder=PlainRecorder, **{"after": 0, **more}))


def test_inputs_are_copied_and_outputs_overwritten():
    static = recordings()
    given = torch.ones(2, 3)
    one = double(static, given, 3)
    assert one.tolist() == [[2] * 3] * 2
    given.fill_(5)  # its own buffer
    other = double(static, given[:, :2] + 1, 4, "other")
    assert other.tolist() == [[12, 12, 0, 0]] * 2
    assert one.isnan().all(), "it should hold until the next call only"
    again = double(static, given[:, :1], 3)
    assert again.data_ptr() == one.data_ptr()
    assert one.tolist() == [[10, 2, 2]] * 2, "what is after smaller inputs should stay"


def test_a_wider_recording_serves_until_there_is_one_of_these_rows():
    static = recordings(after=1)

    def run(rows):
        given = torch.arange(2.0 * rows).view(rows, 2)
        output = double(static, given, 2)
        assert output is None or torch.equal(output, 2 * given)
        return output is not None

    assert [run(7), run(8)] == [False, True]
    assert [run(2), run(1)] == [True, True] and set(static.passes) == {(8, "double")}
    assert run(2) and set(static.passes) == {(8, "double"), (2, "double")}
    assert not run(9)


def cache():
    return StaticCache(Graphs(recorder=PlainRecorder, after=0), 1, 2, 4)


def test_a_buffer_keeps_its_address_until_it_has_to_grow():
    static = cache()
    static.start(3, 40, LIKE)
    static.store("source", torch.ones(1, 3, 1, 70), fill=9.0)  # 4 rows, 128 columns
    first = static.source("source", 4, 128)
    assert first[:, :3, :, 70:].eq(9).all() and first[:, 3].eq(0).all()
    static.store("source", torch.full((1, 2, 1, 5), 2.0), fill=8.0)
    assert first[:, :2, :, :5].eq(2).all() and first[:, :2, :, 5:64].eq(8).all()
    assert first[:, 2:].eq(0).all(), "rows of the batch before could hide all positions"
    static.store("source", torch.ones(1, 2, 1, 130))
    assert static.source("source", 9, 999).shape == (1, 4, 1, 192)


def test_a_cache_forgets_its_recordings_when_a_buffer_moves():
    static = cache()

    def recorded():
        double(static.recordings, torch.ones(2, 3), 3)
        return len(static.recordings.passes)

    static.start(3, 40, LIKE)
    assert static.slots[0].shape == (2, 4, 2, 64, 4) and recorded() == 1
    for harmless in (
        lambda: static.start(4, 64, LIKE),
        lambda: static.start(1, 10, LIKE),
        lambda: static.reserve(64),
    ):
        harmless()
        assert len(static.recordings.passes) == 1
    for moving in (
        lambda: static.store("source", torch.ones(1, 1, 1, 9)),
        lambda: static.reserve(65),
        lambda: static.start(5, 10, LIKE),
        lambda: static.start(5, 10, LIKE.double()),
        lambda: static.store("source", torch.ones(1, 2, 1, 9)),
        lambda: static.store("source", torch.ones(1, 2, 1, 65)),
    ):
        moving()
        assert not static.recordings.passes and recorded() == 1
    assert static.capacity == 128
