"""A fairseq Transformer encoder of text or of speech on the native library."""

from typing import Any

import torch
from torch import Tensor

from ..eager.encoder import Encoder
from .linear import pointer
from .stack import NativeStack


class NativeEncoder(Encoder):
    """An encoder of text or of speech: the library runs its layers, from their packed weights."""

    def __init__(self, encoder: Any, stack: NativeStack) -> None:
        super().__init__(encoder)
        self.stack = stack

    def run(self, x: Tensor, padding: Tensor | None) -> Tensor:
        x = x.float().contiguous()
        rows, length, width = x.shape
        self.stack.library.call(
            "specdec_encode", self.stack.pointer, rows, length, width, pointer(x),
            pointer(padding, torch.bool),
        )  # fmt: skip
        return x
