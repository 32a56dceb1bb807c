"""CUDA graphs: passes of fixed shapes, recorded once and then started in one launch.

A recorded pass reads and writes the addresses that it was recorded with. So its inputs are copied
into buffers of its own, what it keeps (caches, the source's keys and values) stays at one address
from batch to batch, and its outputs hold only until the next pass of the same ``Recordings``. Rows,
columns and slots are rounded up, so that few shapes occur.

A shape is recorded when it has come up several times. Until then, where recording fails, and for
all other shapes the caller computes as it would without graphs, over the same buffers.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_specdec.errors import UsageError

from .session import Session
from .state import Layout, additive, causal_horizon
from .torch_decoder import EncoderWeights, KVCache, TorchSession

logger = logging.getLogger(__name__)

BUCKET = 64
"""Cache slots and source positions are rounded up to multiples of this."""

ENCODED = 16
"""The same of source positions in an encoder."""

COLUMNS = 8
"""Columns of a block but of one alone are rounded up to multiples of this."""

SCATTERED = 32
"""The same of tokens in any order, but of a few: so wide a pass takes hardly longer."""

AFTER = 8
"""So often a shape comes up before it is recorded, which takes as long as many iterations."""

MOST = 32
"""Recorded shapes of one cache."""

MOST_ROWS = 64
"""Shapes of more rows do not serve for fewer."""

Inputs = Sequence[tuple[Tensor, tuple[int, ...]]]
"""Tensors of a pass, [B, ..] each, and sizes [..] that are at least as large in every dimension."""

Outputs = tuple[Tensor, ...]
Pass = Callable[..., Outputs]
Finish = Callable[[Any, Tensor], Tensor]
"""[.., V] of a session and its features [.., C']."""

_RECORDING = threading.Lock()


def bucket(count: int, step: int = 0) -> int:
    """The next multiple of a step, or of ``BUCKET``: so many slots or positions are computed."""
    step = step or BUCKET
    return -(-count // step) * step


def row_bucket(rows: int) -> int:
    """Rows to compute for ``rows``: the next power of two."""
    return 1 << (rows - 1).bit_length()


class CudaRecorder:
    """Records CUDA graphs that share one pool of memory."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.pool = torch.cuda.graph_pool_handle()
        with torch.cuda.device(device):
            self.side = torch.cuda.Stream()  # one for all: libraries keep a workspace for each

    def record(self, function: Callable[[], Outputs]) -> tuple[Callable[[], None], Outputs]:
        """(does all of it again, its outputs at their addresses); outputs of one recording hold
        until any of this recorder is run. Raises RuntimeError: it cannot be recorded."""
        graph, side = torch.cuda.CUDAGraph(), self.side
        with _RECORDING, torch.cuda.device(self.device):
            current = torch.cuda.current_stream()
            side.wait_stream(current)
            with torch.cuda.stream(side):
                function()  # what libraries prepare at a first call cannot be recorded
            current.wait_stream(side)
            mode = "thread_local"  # other threads may allocate meanwhile
            with torch.cuda.graph(graph, pool=self.pool, stream=side, capture_error_mode=mode):
                outputs = function()
        return graph.replay, outputs


@dataclasses.dataclass
class Graphs:
    """What all recordings of a generator have in common."""

    block_size: int | None = None  # k, most draft tokens, where it is known
    rows: int | None = None  # shapes of more rows are not recorded; None for any number
    recorder: Callable[[torch.device], CudaRecorder] = CudaRecorder
    after: int = AFTER
    compiles: bool = False  # each pass is compiled before it is recorded
    broken: bool = False  # a recording failed: nothing is replayed any more

    def columns(self, width: int) -> int:
        """Columns to compute for a block of ``width``: 1, k + 1 or a multiple of ``COLUMNS``."""
        if width == 1:
            return 1
        columns = bucket(width, COLUMNS)
        if self.block_size is not None and width <= self.block_size + 1:
            return min(columns, self.block_size + 1)
        return columns


def graphs_for(asked: str, models: Sequence[Any], block_size: int | None) -> Graphs | None:
    """The graphs of a generator, as ``--cuda-graphs`` sets; None where none are recorded."""
    if asked == "off" or not next(models[0].parameters()).is_cuda:
        return None
    rows = 32 if asked == "auto" else None  # up to where they pay on an H200
    return Graphs(block_size, rows, compiles=asked == "compiled")


def check_graphs(asked: str, device: torch.device) -> None:
    """Refuse graphs where there is no GPU."""
    if asked in ("on", "compiled") and device.type != "cuda":
        raise UsageError(
            f"--cuda-graphs {asked}",
            f"the models are on {device}, and only a GPU has graphs",
            "use auto or off, or leave out --cpu",
        )


class Recordings:
    """The recorded passes over one cache. Only one batch uses a cache at a time."""

    def __init__(self, graphs: Graphs) -> None:
        self.graphs = graphs
        self.clear()

    def clear(self) -> None:
        """Forget all recordings: buffers that they use have moved."""
        # by rows and key: buffers of the inputs, what does it again, and outputs
        self.version = object()  # of the buffers, for other recordings over them
        self.passes: dict[Hashable, tuple[list[Tensor], Callable[[], None], Outputs]] = {}
        self._asked: Counter[Hashable] = Counter()
        self._recorder: CudaRecorder | None = None

    def run(self, key: Hashable, function: Pass, inputs: Inputs) -> Outputs | None:
        """Run a pass, if it is recorded or to be recorded now. A recording of more rows serves
        until there is one of these.

        Args:
            key: names it, its sizes and all numbers that it was made with, but not the rows.
            function: of inputs of R rows, B or more. It reads nothing else of a batch; running it
                twice leaves what running it once does; and it is valid for any numbers that it was
                ever called with, and for zeros.
            inputs: one or more.

        Returns:
            The B rows of its outputs, which hold until the next call; None where the caller has to
            compute them.
        """
        graphs, count = self.graphs, inputs[0][0].size(0)
        if graphs.broken or (graphs.rows is not None and count > graphs.rows):
            return None
        rows = row_bucket(count)
        if (rows, key) not in self.passes:
            self._asked[rows, key] += 1
            if self._asked[rows, key] > graphs.after and len(self.passes) < MOST:
                self._record(rows, key, function, inputs)
        while (rows, key) not in self.passes:
            rows *= 2
            if rows > MOST_ROWS:
                return None
        buffers, replay, outputs = self.passes[rows, key]
        _load(buffers, inputs)
        replay()
        return tuple(each[:count] for each in outputs)

    def _record(self, rows: int, key: Hashable, function: Pass, inputs: Inputs) -> None:
        try:
            buffers = [each.new_zeros(rows, *sizes) for each, sizes in inputs]
            _load(buffers, inputs)
            if self.graphs.compiles:
                function = compiled(function)
            if self._recorder is None:
                self._recorder = self.graphs.recorder(buffers[0].device)
            recorded = self._recorder.record(lambda: function(*buffers))
            self.passes[rows, key] = (buffers, *recorded)
        except RuntimeError as error:
            self.graphs.broken = True
            logger.warning(
                "--cuda-graphs: recording failed, decoding continues without graphs (%s)",
                str(error).strip().partition("\n")[0],
            )


def compiled(function: Pass) -> Pass:
    """The same pass, its kernels fused and tuned by torch.compile."""
    torch._dynamo.config.cache_size_limit = max(torch._dynamo.config.cache_size_limit, 4 * MOST)
    made: Pass = torch.compile(
        function, fullgraph=True, dynamic=False, mode="max-autotune-no-cudagraphs"
    )
    return made


def _load(buffers: Sequence[Tensor], inputs: Inputs) -> None:
    """Copy inputs to the front of buffers; what is after them stays."""
    for buffer, (given, _) in zip(buffers, inputs):
        buffer[tuple(map(slice, given.shape))].copy_(given)


class StaticCache(KVCache):
    """A ``KVCache`` that grows by buckets, with what a batch keeps of its source, all of it at one
    address from batch to batch. ``recordings``: over it; forgotten when a buffer moves."""

    def __init__(self, graphs: Graphs, layers: int, heads: int, dim: int) -> None:
        super().__init__(layers, heads, dim)
        self.recordings = Recordings(graphs)
        self._sources: dict[str, Tensor] = {}

    def start(self, rows: int, capacity: int, like: Tensor) -> None:
        before = self.slots
        super().start(row_bucket(rows), bucket(capacity), like)
        if self.slots is not before:
            self._sources.clear()
            self.recordings.clear()

    def reserve(self, slots: int) -> None:
        before = self.slots
        super().reserve(bucket(slots))
        if self.slots is not before:
            self.recordings.clear()

    def store(self, name: str, value: Tensor, fill: float | None = None) -> None:
        """Store what a batch begins with, [X, B, Y, S, ..], which ``keep`` holds in the order of
        the rows.

        Args:
            name: names it for later batches.
            fill: what these rows have at further positions, up to the bucket; other rows get
                zeros. None leaves old, finite numbers there.
        """
        rows, length = value.size(1), value.size(3)
        if name not in self._sources or self._sources[name].size(3) < length:
            sizes = list(value.shape)
            sizes[1], sizes[3] = self.slots[0].size(1), bucket(length)
            self._sources[name] = value.new_zeros(sizes)
            self.recordings.clear()
        if fill is not None:
            self._sources[name].zero_()
            self.source(name, rows, bucket(length)).fill_(fill)
        self.source(name, rows, length).copy_(value)

    def source(self, name: str, rows: int, positions: int) -> Tensor:
        """[X, R, Y, S, ..], the part of the first rows and positions."""
        return self._sources[name][:, :rows, :, :positions]

    def keep(self, rows: Tensor, count: int) -> None:
        super().keep(rows, count)
        for buffer in self._sources.values():
            buffer[:, :count] = buffer.index_select(1, rows)


class StaticSession(TorchSession):
    """A session whose buffers keep their addresses from batch to batch. ``sources``: S, source
    positions that are computed, the bucket of those that there are."""

    cache: StaticCache

    def _read(self, source: Tensor, padding: Tensor | None) -> None:
        super()._read(source, padding)
        rows, length = source.size(0), source.size(1)
        self.sources = bucket(length)
        for i, each in enumerate(self.cross):
            if each is not None:
                self.cache.store(f"cross {i}", each)
        mask = source.new_zeros(rows, length) if padding is None else additive(~padding, source)
        self.cache.store("mask", mask[None, :, None], fill=float("-inf"))
        _, self.cross, self.cross_mask = self.over(rows)

    def over(self, rows: int) -> tuple[StaticCache, list[Tensor | None], Tensor]:
        """What ``TorchDecoder.run`` takes to run over the first rows of the buffers, whatever batch
        they are of: the cache, keys and values of the source, and its mask."""
        cross = [
            None if each is None else self.cache.source(f"cross {i}", rows, self.sources)
            for i, each in enumerate(self.cross)
        ]
        mask = self.cache.source("mask", rows, self.sources)
        return self.cache, cross, mask[0].unsqueeze(1)

    def keep(self, rows: Tensor, count: int) -> None:
        Session.keep(self, rows, count)
        self.cache.keep(rows, count)
        _, self.cross, self.cross_mask = self.over(count)

    def padded(self, width: int, upto: int) -> tuple[int, int]:
        return COLUMNS if width <= COLUMNS else bucket(width, SCATTERED), bucket(upto)

    def replay(self, tokens: Tensor, layout: Layout, finish: Finish) -> Tensor | None:
        """As ``Session.replay``. The answer holds until the next call.

        Args:
            tokens: long [B, W].
            layout: of a chain, or of scattered tokens ``padded``.
            finish: always the same one for this model.
        """
        recordings, width = self.cache.recordings, tokens.size(1)
        kind, columns, upto = "scattered", width, layout.upto
        if layout.seen is None:
            kind, columns = "chain", recordings.graphs.columns(width)
            upto = bucket(upto - width + columns)
            places: Inputs = [(layout.slots[:, 0], ())]
        else:
            # Rows that no batch had yet see all: a row that sees nothing makes NaN.
            hidden = (~layout.seen, (columns, upto))
            places = [(layout.positions, (columns,)), (layout.slots, (columns,)), hidden]
        key, whole_pass = self.recordable(columns, upto, finish)
        outputs = recordings.run((kind, *key), whole_pass, [(tokens, (columns,)), *places])
        if outputs is None:
            return None
        if len(outputs) > 1:
            self.keep_states(layout, outputs[1][:, :width])
        return outputs[0][:, :width]

    def recordable(self, columns: int, upto: int, finish: Finish) -> tuple[tuple[int, ...], Pass]:
        """The pass that ``replay`` runs over so many columns and slots, and what names it: of
        tokens long [R, W] and first slots long [R], the scores and the states read."""
        self.cache.reserve(upto)
        embedding, table = self.embedding, self.positions
        assert embedding is not None

        def whole_pass(tokens: Tensor, first: Tensor, *scattered: Tensor) -> Outputs:
            if scattered:
                layout = Layout(first, scattered[0], upto, seen=~scattered[1])
            else:
                slots = causal_horizon(first, columns)
                layout = Layout(slots, slots, upto)
            x, source = embedding(tokens, layout, table), self.over(len(tokens))
            features, read = self.weights.run(*source, x, layout)
            scores = finish(self, features)
            return (scores, torch.cat(read, -1)) if read else (scores,)

        return (columns, upto, self.sources, 0 if table is None else table.size(0)), whole_pass


class StaticEncoder(EncoderWeights):
    """``EncoderWeights`` that records its passes over text. The buffers are one batch's only until
    its states are copied, so all batches of a CUDA stream share them."""

    def __init__(self, graphs: Graphs, *parts: Any) -> None:
        super().__init__(*parts)
        self.graphs = graphs
        self.streams: dict[int, Recordings] = {}
        self._lock = threading.Lock()

    def states(
        self, net_input: dict[str, Any], padded: bool | None
    ) -> tuple[Tensor, Tensor | None]:
        tokens: Tensor = net_input["src_tokens"]
        pad = self.pad
        if pad is None:
            return super().states(net_input, padded)
        length = tokens.size(1)
        columns = bucket(length, ENCODED)
        # A longer source than any before replaces a sinusoidal table, which recordings look at.
        table = getattr(self.encoder.embed_positions, "weights", None)
        key = columns, None if table is None else table.data_ptr()
        running = tokens.is_cuda and torch.cuda.is_available()  # tests pretend a GPU
        stream = torch.cuda.current_stream(tokens.device).cuda_stream if running else 0
        with self._lock:
            recordings = self.streams.setdefault(stream, Recordings(self.graphs))
            wide = F.pad(tokens, (0, columns - length), value=pad)
            outputs = recordings.run(key, self._whole, [(wide, (columns,))])
            states = None if outputs is None else outputs[0][:, :length].clone()
        if states is None:
            return super().states(net_input, padded)
        return states, self.padding(tokens, padded)

    def _whole(self, tokens: Tensor) -> Outputs:
        return (super().states({"src_tokens": tokens}, True)[0],)
