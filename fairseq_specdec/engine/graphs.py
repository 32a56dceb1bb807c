"""CUDA graphs: computations of fixed shapes, recorded once and then started in one launch.

A recorded computation reads and writes the addresses that it was recorded with. So its inputs are
copied into buffers of its own, what it keeps (caches, the source's keys and values) stays at one
address from batch to batch, and its outputs hold only until the next call of the same
``StaticCalls``. Rows, columns and slots are rounded up, so that few shapes occur.

A shape is recorded when it has come up several times. Until then, where recording fails, and for
all other shapes the caller computes as it would without graphs.
"""

import inspect
import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

BUCKET = 64
"""Cache slots and source positions are rounded up to multiples of this."""

COLUMNS = 8
"""Columns of a block but of one alone are rounded up to multiples of this."""

SCATTERED = 32
"""The same of tokens in any order, but of a few."""

AFTER = 8
"""So often a shape comes up before it is recorded, which takes as long as many iterations."""

MOST = 32
"""Recorded shapes of one cache."""

MOST_ROWS = 64
"""Shapes of more rows do not serve for fewer."""

Outputs = tuple[Tensor, ...]
Shape = tuple[tuple[int, ...], torch.dtype]
Function = Callable[..., Outputs]


def bucket(count: int) -> int:
    """Slots or source positions to compute for ``count``."""
    return -(-count // BUCKET) * BUCKET


def row_bucket(rows: int) -> int:
    """Rows to compute for ``rows``: the next power of two."""
    return 1 << (rows - 1).bit_length()


def more_rows(rows: int) -> list[int]:
    """The buckets after this one, up to ``MOST_ROWS``."""
    sizes = []
    while rows < MOST_ROWS:
        rows *= 2
        sizes.append(rows)
    return sizes


def scattered_columns(width: int) -> int:
    """Columns to compute for a block of ``width`` tokens in any order: a few, or a multiple of
    ``SCATTERED``. Each shape more is recorded anew, and so wide a pass takes hardly longer."""
    return COLUMNS if width <= COLUMNS else -(-width // SCATTERED) * SCATTERED


class Fixed(NamedTuple):
    """A computation of fixed shapes."""

    # of the inputs; running it twice leaves what running it once does. Valid for any numbers that
    # it was ever called with, and for zeros
    function: Function
    shapes: Sequence[Shape]  # (sizes, dtype) of each input


class Recorder(Protocol):
    """Records the computations of one cache."""

    def record(self, function: Callable[[], Outputs]) -> tuple[Callable[[], Any], Outputs]:
        """(does all of it again, its outputs at their addresses); outputs of one recording hold
        until any of this recorder is run. Raises RuntimeError: it cannot be recorded."""


_RECORDING = threading.Lock()


class CudaRecorder:
    """Records CUDA graphs that share one pool of memory."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.pool = torch.cuda.graph_pool_handle()
        with torch.cuda.device(device):
            self.side = torch.cuda.Stream()  # one for all: libraries keep a workspace for each

    def record(self, function: Callable[[], Outputs]) -> tuple[Callable[[], Any], Outputs]:
        graph = torch.cuda.CUDAGraph()
        # Other threads may allocate meanwhile; torch before 2.1 cannot tell them apart.
        known = inspect.signature(torch.cuda.graph.__init__).parameters
        mode: dict[str, Any] = {}
        if "capture_error_mode" in known:
            mode["capture_error_mode"] = "thread_local"
        with _RECORDING, torch.cuda.device(self.device):
            side, current = self.side, torch.cuda.current_stream()
            side.wait_stream(current)
            with torch.cuda.stream(side):
                function()  # what libraries prepare at a first call cannot be recorded
            current.wait_stream(side)
            with torch.cuda.graph(graph, pool=self.pool, stream=side, **mode):
                outputs = function()
        return graph.replay, outputs


class Graphs:
    """What all recordings of a generator have in common.

    Attributes:
        broken: one failed; nothing is replayed any more.

    Args:
        block_size: k, most draft tokens, where it is known.
        rows: shapes of more rows are not recorded; None for any number.
        recorder: makes the recorder of a cache on a device.
        after: as ``AFTER``.
    """

    def __init__(
        self,
        block_size: int | None = None,
        rows: int | None = None,
        recorder: Callable[[torch.device], Recorder] = CudaRecorder,
        after: int = AFTER,
    ) -> None:
        self.block_size = block_size
        self.rows = rows
        self.recorder = recorder
        self.after = after
        self.broken = False

    def columns(self, width: int) -> int:
        """Columns to compute for a block of ``width``: 1, k + 1 or a multiple of ``COLUMNS``."""
        if width == 1:
            return 1
        rounded = -(-width // COLUMNS) * COLUMNS
        if self.block_size is not None and width <= self.block_size + 1:
            return min(rounded, self.block_size + 1)
        return rounded

    def fail(self, error: RuntimeError) -> None:
        """Go on without graphs."""
        if not self.broken:
            reason = str(error).strip().partition("\n")[0]
            logger.warning(
                "--cuda-graphs: recording failed, decoding goes on without graphs (%s)", reason
            )
        self.broken = True


class _Call:
    """A recorded computation with its input buffers."""

    def __init__(self, fixed: Fixed, inputs: Sequence[Tensor], recorder: Recorder) -> None:
        device = inputs[0].device
        self.inputs = [torch.zeros(size, dtype=of, device=device) for size, of in fixed.shapes]
        self._load(inputs)
        self._replay, self.outputs = recorder.record(lambda: fixed.function(*self.inputs))

    def _load(self, inputs: Sequence[Tensor]) -> None:
        """Copy inputs to the front of the buffers; what is after them stays."""
        for buffer, given in zip(self.inputs, inputs):
            buffer[tuple(map(slice, given.shape))].copy_(given)

    def __call__(self, inputs: Sequence[Tensor]) -> Outputs:
        self._load(inputs)
        self._replay()
        return self.outputs


class StaticCalls:
    """The recorded computations over one cache. Only one batch uses a cache at a time."""

    def __init__(self, graphs: Graphs) -> None:
        self.graphs = graphs
        self.clear()

    def clear(self) -> None:
        """Forget all recordings: buffers that they use have moved."""
        self._calls: dict[Hashable, _Call] = {}
        self._asked: dict[Hashable, int] = {}
        self._recorder: Recorder | None = None

    def run(
        self,
        key: Hashable,
        make: Callable[[], Fixed],
        inputs: list[Tensor],
        wider: Iterable[Hashable] = (),
    ) -> Outputs | None:
        """Run a computation, if it is recorded or to be recorded now.

        Args:
            key: names it, its shapes and all numbers that it was made with.
            make: makes it.
            inputs: at least one, of all rows; each at most as large as the shape that was made for
                it, in every dimension.
            wider: keys of the same computation for more rows, the first recorded of which serves
                until it is recorded itself.

        Returns:
            Its outputs, which hold until the next call; None where the caller has to compute them.
        """
        limit = self.graphs.rows
        if self.graphs.broken or (limit is not None and inputs[0].size(0) > limit):
            return None
        call = self._calls.get(key)
        if call is None:
            call = self._record(key, make, inputs)
        if call is None:
            call = next((self._calls[each] for each in wider if each in self._calls), None)
        return None if call is None else call(inputs)

    def _record(
        self, key: Hashable, make: Callable[[], Fixed], inputs: list[Tensor]
    ) -> _Call | None:
        asked = self._asked[key] = self._asked.get(key, 0) + 1
        if asked <= self.graphs.after or len(self._calls) >= MOST:
            return None
        try:
            if self._recorder is None:
                self._recorder = self.graphs.recorder(inputs[0].device)
            call = self._calls[key] = _Call(make(), inputs, self._recorder)
        except RuntimeError as error:
            self.graphs.fail(error)
            return None
        return call
