"""A fairseq Transformer encoder of text or of speech on the native library."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..eager.encoder import Encoder
from .linear import NativeLinear, pointer
from .stack import NativeStack


class _Convolution:
    """One strided convolution of fairseq's ``Conv1dSubsampler`` and its gated linear unit (Dauphin
    et al. 2017), as a product of the library."""

    def __init__(self, convolution: Any, stack: NativeStack) -> None:
        self.kernel = convolution.kernel_size[0]
        self.stride = convolution.stride[0]
        self.padding = convolution.padding[0]
        # [out, in, k] to [out, k in]: the frames of a window follow one another.
        weight = convolution.weight.detach().transpose(1, 2).flatten(1)
        self.product = NativeLinear(stack.library, weight, convolution.bias, stack.number_format)

    def __call__(self, frames: Tensor) -> Tensor:
        """[B, S, out / 2] of frames [B, T, in]."""
        padded = F.pad(frames, (0, 0, self.padding, self.padding))
        windows = padded.unfold(1, self.kernel, self.stride).transpose(2, 3).flatten(2)
        return F.glu(self.product(windows), -1)


class NativeEncoder(Encoder):
    """An encoder that the library runs, from the packed weights of its layers."""

    def __init__(self, encoder: Any, stack: NativeStack) -> None:
        super().__init__(encoder)
        self.stack = stack
        of_speech = encoder.subsample.conv_layers if self.pad is None else ()
        self.convolutions = [_Convolution(each, stack) for each in of_speech]

    def subsample(self, frames: Tensor, lengths: Tensor) -> Tensor:
        x = frames.float()
        for convolution in self.convolutions:
            x = convolution(x)
        return x

    def run(self, x: Tensor, padding: Tensor | None) -> Tensor:
        x = x.float().contiguous()
        rows, length, width = x.shape
        self.stack.library.call(
            "specdec_encode", self.stack.pointer, rows, length, width, pointer(x),
            pointer(padding, torch.bool),
        )  # fmt: skip
        return x
