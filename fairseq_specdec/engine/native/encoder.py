"""A fairseq Transformer encoder on the native library."""

from typing import Any

import torch

from ..eager.encoder import EncoderSource
from .pointers import pointer
from .speech import NativeSubsampler
from .stack import NativeStack


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
