"""A fairseq Transformer encoder on the native library."""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch
from torch import Tensor

from .pointers import pointer
from .stack import NativeStack


class NativeEncoder:
    """Encodes batches, as ``engine.eager.EncoderWeights`` does.

    Args:
        encoder: a fairseq encoder that the engine runs, without a reason for ``refusal``.
        stack: its packed layers.
    """

    def __init__(self, encoder: Any, stack: NativeStack) -> None:
        self.encoder = encoder
        self.stack = stack

    def __call__(self, net_input: Dict[str, Any], padded: Optional[bool] = None) -> Dict[str, Any]:
        """fairseq's encoder output, as far as decoding reads it.

        Args:
            net_input: fairseq's ``sample["net_input"]``.
            padded: whether there is padding; None to look.
        """
        tokens: Tensor = net_input["src_tokens"]
        padding = tokens.eq(self.encoder.padding_idx).contiguous()
        x, _ = self.encoder.forward_embedding(tokens)
        hidden = None
        if bool(padding.any()) if padded is None else padded:
            x = x.masked_fill(padding.unsqueeze(2), 0.0)
            hidden = pointer(padding, torch.bool)
        x = x.float().contiguous()
        rows, width = tokens.shape
        self.stack.library.call(
            "specdec_encode", self.stack.pointer, rows, width, x.size(2), pointer(x), hidden
        )
        masks = [] if hidden is None else [padding]
        return {"encoder_out": [x.transpose(0, 1)], "encoder_padding_mask": masks}
