"""Passes of an encoder over text, recorded as CUDA graphs."""

import threading
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..graphs import Fixed, Graphs, Outputs, StaticCalls, more_rows, row_bucket
from .encoder import EncoderWeights

BUCKET = 16
"""Source positions are rounded up to multiples of this."""


class StaticEncoder(EncoderWeights):
    """``EncoderWeights`` that records its passes over text.

    Its buffers are one batch's only until its states are copied, so all batches of a CUDA stream
    share them.
    """

    def __init__(self, graphs: Graphs, encoder: Any, free_unpacked: bool = False) -> None:
        super().__init__(encoder, free_unpacked)
        self.graphs = graphs
        self._calls: dict[int, StaticCalls] = {}  # of each stream
        self._lock = threading.Lock()

    def __call__(self, net_input: dict[str, Any], padded: bool | None = None) -> dict[str, Any]:
        pad = None if self.layers is None else self.source.pad
        states = None if pad is None else self._replayed(net_input["src_tokens"], pad)
        if states is None:
            return super().__call__(net_input, padded)
        return self.source.output(states, self.source.padding(net_input["src_tokens"], padded))

    def _replayed(self, tokens: Tensor, pad: int) -> Tensor | None:
        """[B, S, C] of long [B, S] by a graph; None where there is none for these shapes."""
        rows, length = tokens.shape
        size = row_bucket(rows), -(-length // BUCKET) * BUCKET
        sizes = [size, *((more, size[1]) for more in more_rows(size[0]))]
        # A longer source than any before replaces a sinusoidal table, which recordings look at.
        table = getattr(self.encoder.embed_positions, "weights", None)
        key, *wider = ((each, None if table is None else table.data_ptr()) for each in sizes)
        inputs = [F.pad(tokens, (0, size[1] - length), value=pad)]
        stream = torch.cuda.current_stream(tokens.device).cuda_stream if _runs(tokens) else 0
        with self._lock:
            calls = self._calls.setdefault(stream, StaticCalls(self.graphs))
            fixed = Fixed(self._whole, [(size, tokens.dtype)])
            outputs = calls.run(key, lambda: fixed, inputs, wider)
            return None if outputs is None else outputs[0][:rows, :length].clone()

    def _whole(self, tokens: Tensor) -> Outputs:
        return (self.states({"src_tokens": tokens}, True)[0],)


def _runs(tensor: Tensor) -> bool:
    """Whether it is on a GPU that runs; tests pretend one."""
    return tensor.is_cuda and torch.cuda.is_available()
