"""A fairseq Transformer encoder of text or of speech on the native library."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..eager.encoder import EncoderSource
from .library import Library
from .linear import NativeLinear, pointer
from .stack import NativeStack


class _Convolution:
    """One strided convolution and its gated linear unit (Dauphin et al. 2017)."""

    def __init__(self, library: Library, convolution: Any, number_format: str) -> None:
        self.kernel = convolution.kernel_size[0]
        self.stride = convolution.stride[0]
        self.padding = convolution.padding[0]
        # [out, in, k] to [out, k in]: the frames of a window follow one another.
        weight = convolution.weight.detach().transpose(1, 2).flatten(1)
        self.product = NativeLinear(library, weight, convolution.bias, number_format)

    def __call__(self, frames: Tensor) -> Tensor:
        """[B, S, out / 2] of frames [B, T, in]."""
        padded = F.pad(frames, (0, 0, self.padding, self.padding))
        windows = padded.unfold(1, self.kernel, self.stride).transpose(2, 3).flatten(2)
        return F.glu(self.product(windows), -1)


class NativeSubsampler:
    """fairseq's ``Conv1dSubsampler``: each convolution halves the frames."""

    def __init__(self, library: Library, subsampler: Any, number_format: str) -> None:
        self.layers = [
            _Convolution(library, each, number_format) for each in subsampler.conv_layers
        ]

    def __call__(self, frames: Tensor, lengths: Tensor) -> Tensor:
        """[B, S, C] of frames float [B, T, F]; zeros come after ``lengths`` (long [B])."""
        x = frames.float()
        for layer in self.layers:
            x = layer(x)
        return x


class NativeEncoder:
    """Encodes batches, as ``engine.eager.EncoderWeights`` does."""

    def __init__(self, encoder: Any, stack: NativeStack) -> None:
        subsampler = getattr(encoder, "subsample", None)
        if subsampler is not None:
            subsampler = NativeSubsampler(stack.library, subsampler, stack.number_format)
        self.source = EncoderSource(encoder, subsampler)
        self.stack = stack

    def __call__(self, net_input: dict[str, Any], padded: bool | None = None) -> dict[str, Any]:
        """fairseq's encoder output, as far as decoding reads it."""
        x, padding = self.source.embed(net_input, padded)
        x = x.float().contiguous()
        hidden = pointer(padding, torch.bool)
        rows, length, width = x.shape
        self.stack.library.call(
            "specdec_encode", self.stack.pointer, rows, length, width, pointer(x), hidden
        )
        return self.source.output(x, padding)
