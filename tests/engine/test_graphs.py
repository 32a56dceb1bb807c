"""Recording and replaying: the order of what CUDA is asked, the buffers, and the rows' places."""

import contextlib
import inspect

import pytest
import torch
from plain_graphs import PlainRecorder

from fairseq_specdec.engine.graphs import CudaRecorder, Fixed, Graphs, StaticCalls
from fairseq_specdec.engine.torch_graphs import RowBuffer, StaticCache

LIKE = torch.zeros(1)


class PretendedCuda:
    """Notes what is asked of ``torch.cuda``, in order."""

    def __init__(self, monkeypatch, modes):
        self.asked = []
        self.capturing = False
        real = inspect.signature(torch.cuda.graph.__init__)
        asked, cuda = self.asked, self

        class Stream:
            def wait_stream(self, other):
                asked.append("side waits" if self is not cuda.current else "current waits")

        class Graph:
            def replay(self):
                asked.append("replay")

        class Capture(contextlib.ContextDecorator):
            def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="global"):
                assert isinstance(cuda_graph, Graph) and pool == "pool"
                assert isinstance(stream, Stream) and stream is not cuda.current
                real.bind(self, cuda_graph, pool=pool, stream=stream)
                asked.append(f"capture {capture_error_mode}")

            def __enter__(self):
                cuda.capturing = True

            def __exit__(self, *error):
                cuda.capturing = False

        class OldCapture(Capture):
            def __init__(self, cuda_graph, pool=None, stream=None):
                super().__init__(cuda_graph, pool, stream)

        self.current = Stream()
        replaced = {
            "Stream": Stream,
            "CUDAGraph": Graph,
            "graph": Capture if modes else OldCapture,
            "graph_pool_handle": lambda: "pool",
            "current_stream": lambda: self.current,
            "stream": self.on,
            "device": lambda device: contextlib.nullcontext(),
        }
        for name, value in replaced.items():
            monkeypatch.setattr(torch.cuda, name, value)

    @contextlib.contextmanager
    def on(self, stream):
        self.asked.append("on side")
        yield


@pytest.mark.parametrize("modes", [True, False], ids=["torch 2.1", "torch 1.13"])
def test_what_is_asked_of_cuda(modes, monkeypatch):
    cuda = PretendedCuda(monkeypatch, modes)

    def function():
        cuda.asked.append("captured" if cuda.capturing else "warmed up")
        return (LIKE,)

    replay, outputs = CudaRecorder(torch.device("cuda", 0)).record(function)
    replay()
    mode = "thread_local" if modes else "global"
    assert cuda.asked == [
        *("side waits", "on side", "warmed up", "current waits"),
        *(f"capture {mode}", "captured", "replay"),
    ]
    assert outputs == (LIKE,)


def doubled(rows):
    """A computation over so many rows."""
    return Fixed(lambda x: (2 * x,), [((rows, 3), torch.long)])


def calls(**more):
    return StaticCalls(Graphs(recorder=PlainRecorder, **{"after": 0, **more}))


def test_inputs_are_copied_and_outputs_overwritten():
    static = calls()
    given = torch.ones(2, 3, dtype=torch.long)
    (one,) = static.run("two", lambda: doubled(2), [given])
    assert one.tolist() == [[2] * 3] * 2
    given.fill_(5)  # its own buffer
    (other,) = static.run("four", lambda: doubled(4), [given + 1])
    assert other[:2].tolist() == [[12] * 3] * 2
    assert one.tolist() == [[3] * 3] * 2, "it should hold until the next call only"
    (again,) = static.run("two", lambda: doubled(2), [given])
    assert again is one and one.tolist() == [[10] * 3] * 2


def test_smaller_inputs_leave_what_is_after_them():
    static = calls()
    static.run("two", lambda: doubled(2), [torch.full((2, 3), 7)])
    (output,) = static.run("two", lambda: doubled(2), [torch.full((1, 2), 1)])
    assert output.tolist() == [[2, 2, 14], [14] * 3]


def test_of_too_many_rows_nothing_is_recorded():
    static = calls(rows=2)
    for rows in (1, 2, 3):
        output = static.run(rows, lambda: doubled(4), [torch.ones(rows, 3, dtype=torch.long)])
        assert (output is None) == (rows == 3)


def test_a_buffer_keeps_its_address_until_it_has_to_grow():
    buffer = RowBuffer(0, 1)
    assert buffer.put(torch.ones(3, 70), fill=9.0)  # 4 rows, 128 columns
    assert buffer.tensor.shape == (4, 128)
    address = buffer.tensor.data_ptr()
    assert buffer.view(3, 128)[:, 70:].eq(9).all() and buffer.view(4, 128)[3].eq(0).all()
    assert not buffer.put(torch.full((2, 5), 2.0), fill=8.0)
    assert buffer.tensor.data_ptr() == address
    assert buffer.view(2, 64)[:, :5].eq(2).all() and buffer.view(2, 64)[:, 5:].eq(8).all()
    assert buffer.tensor[2:].eq(0).all(), "rows of the batch before could hide all positions"
    assert buffer.put(torch.ones(2, 130))
    assert buffer.tensor.shape == (4, 192), "what there was room for, there is room for"
    assert buffer.put(torch.ones(2, 130).double()) and buffer.tensor.dtype == torch.float64


def test_rows_move_within_a_buffer():
    buffer = RowBuffer(0, 1)
    buffer.put(torch.arange(4.0)[:, None].expand(4, 3))
    address = buffer.tensor.data_ptr()
    buffer.select(torch.tensor([1, 3]), 2)
    assert buffer.view(2, 3).tolist() == [[1] * 3, [3] * 3]
    assert buffer.tensor.data_ptr() == address


def test_a_cache_forgets_its_recordings_when_a_buffer_moves():
    cache = StaticCache(1, 2, 4, Graphs(recorder=PlainRecorder, after=0))
    ones = torch.ones(2, 3, dtype=torch.long)

    def recorded():
        cache.calls.run("two", lambda: doubled(2), [ones])
        return len(cache.calls._calls)

    cache.start(3, 40, LIKE)
    assert cache.slots[0].shape == (2, 4, 2, 64, 4) and recorded() == 1
    for harmless in (
        lambda: cache.start(4, 64, LIKE),
        lambda: cache.start(1, 10, LIKE),
        lambda: cache.reserve(64),
    ):
        harmless()
        assert len(cache.calls._calls) == 1
    for moving in (
        lambda: cache.buffer("source", torch.ones(1, 9), 0, 1),
        lambda: cache.reserve(65),
        lambda: cache.start(5, 10, LIKE),
        lambda: cache.start(5, 10, LIKE.double()),
        lambda: cache.buffer("source", torch.ones(2, 9), 0, 1),
    ):
        moving()
        assert not cache.calls._calls and recorded() == 1
    assert cache.capacity == 128


def test_a_wider_recording_serves_until_there_is_one_of_these_rows():
    calls = StaticCalls(Graphs(recorder=PlainRecorder, after=1))

    def run(rows, wider=()):
        fixed = Fixed(lambda x: (x * 2,), [((rows,), torch.float32)])
        given = torch.arange(float(rows))
        outputs = calls.run(rows, lambda: fixed, [given], wider)
        if outputs is not None:
            assert torch.equal(outputs[0][:rows], 2 * given)
        return None if outputs is None else len(outputs[0])

    assert [run(8), run(8)] == [None, 8]
    assert [run(2, [4, 8]), run(2, [4, 8])] == [8, 2]
    assert run(1, [2, 4, 8]) == 2
