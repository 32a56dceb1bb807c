"""Recorded computations without a GPU: run as plain functions on their static buffers.

A CUDA graph starts the same kernels on the same addresses with the same numbers, whatever the host
does meanwhile. So a replay here has to call the same operators as at the recording, on the same
memory wherever it is not memory of its own, with the same shapes and constants. As with graphs that
share memory, what a computation gave is overwritten when any of the same cache is run.
"""

import collections

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from fairseq_specdec.engine.torch_graphs import Graphs


class NotStaticError(AssertionError):
    """A replay differs from what was recorded."""


def spoil(tensor):
    """Overwrite it with numbers that nobody decodes with by luck."""
    tensor.fill_(float("nan") if tensor.dtype.is_floating_point else 3)


class Trace(TorchDispatchMode):
    """The operators of a computation: names, constants, shapes, and addresses of foreign memory."""

    def __init__(self):
        super().__init__()
        self.calls = []
        self.own = set()
        self.alive = []  # an address must not be given away again while the trace runs

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = tree_flatten((args, kwargs or {}))[0]
        if func is torch.ops.aten.index_copy_.default:  # a GPU writes in any order
            args = (*args[:2], args[2].flip(0), args[3].flip(0))
        result = func(*args, **(kwargs or {}))
        before = {self.address(x) for x in given if isinstance(x, torch.Tensor)}
        self.calls.append((str(func), tuple(map(self.described, given))))
        for each in tree_flatten(result)[0]:
            if isinstance(each, torch.Tensor) and self.address(each) not in before:
                self.own.add(self.address(each))
                self.alive.append(each)
        return result

    @staticmethod
    def address(tensor):
        packed = tensor.layout != torch.strided  # a weight that is packed for the processor
        return tensor._cdata if packed else tensor.untyped_storage()._cdata

    def described(self, value):
        if not isinstance(value, torch.Tensor):
            return repr(value)
        place = self.address(value)
        if value.layout != torch.strided:
            return place, value.shape
        place = "own" if place in self.own else value.untyped_storage().data_ptr()
        return place, value.dtype, value.shape, value.stride(), value.storage_offset()


class PlainRecorder:
    """As ``CudaRecorder``, for tensors anywhere.

    Attributes:
        outputs: of all recordings, at their addresses.

    Args:
        device: of all tensors.
    """

    def __init__(self, device):
        self.device = device
        self.outputs = []

    def record(self, function):
        function()  # as the warm-up, on the same buffers
        recorded, results = self.inside(function)
        outputs = tuple(each.clone() for each in results)
        self.outputs += outputs

        def replay():
            calls, results = self.inside(function)
            self.compare(recorded, calls)
            results = [each.clone() for each in results]
            for each in self.outputs:
                spoil(each)
            for mine, each in zip(outputs, results):
                mine.copy_(each)

        return replay, outputs

    def inside(self, function):
        """(its operators, its outputs)."""
        with Trace() as trace:
            result = function()
        return trace.calls, result

    @staticmethod
    def compare(recorded, calls):
        for before, now in zip(recorded, calls):
            if before != now:
                raise NotStaticError(f"recorded {before}, replayed {now}")
        if len(recorded) != len(calls):
            raise NotStaticError(f"{len(recorded)} operators recorded, {len(calls)} replayed")


class GuardedRecorder(PlainRecorder):
    """Counts what happens inside the recorded computations apart, in a ``DeviceGuard``.

    Attributes:
        guard: what counts; ``clear`` sets it.
        kernels, waits, copies: as of the guard, inside only.
    """

    names = ("kernels", "waits", "copies")

    @classmethod
    def clear(cls, guard):
        cls.guard = guard
        for name in cls.names:
            setattr(cls, name, collections.Counter())

    def record(self, function):
        replay, outputs = super().record(function)

        def apart():
            before = self.guard.kernels.copy()
            replay()
            self.guard.kernels = before + collections.Counter({("graph", "replay"): 1})

        return apart, outputs

    def inside(self, function):
        before = [getattr(self.guard, name).copy() for name in self.names]
        calls, results = super().inside(function)
        assert all(each.is_cuda for each in results)
        for name, then in zip(self.names, before):
            getattr(type(self), name).update(getattr(self.guard, name) - then)
        return calls, results


def plain_graphs(recorder=PlainRecorder, after=0, rows=None):
    """For ``decoding.generator.graphs_for``: recorded on any device, at once or from a later use
    on, up to so many rows. What it made is in its list ``made``."""

    def graphs_for(asked, models, block_size):
        made.append(Graphs(block_size, rows, recorder, after))
        return made[-1]

    made = graphs_for.made = []
    return graphs_for
