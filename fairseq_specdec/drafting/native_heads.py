"""The heads of blockwise parallel decoding (Stern et al. 2018, section 6) in the native library."""

from __future__ import annotations

from typing import Any

import torch

from fairseq_specdec.engine.backend import Backend, NativeBackend
from fairseq_specdec.engine.native.decoder import EmbeddingTables, NativeDecoder
from fairseq_specdec.engine.native.linear import NativeLinear
from fairseq_specdec.engine.native.stack import activation_number

from .native_block import Masks, NativeBlockDrafter


class _VocabularyAlone:
    """A blockwise decoder's vocabulary, as a stack without layers."""

    layers = ()
    layer_norm = project_out_dim = None

    def __init__(self, decoder: Any) -> None:
        self.embed_tokens = decoder.embed_tokens
        self.output_projection = decoder.output_projection
        self.like = decoder.block_heads.hidden.bias


class NativeHeads(NativeBlockDrafter):
    """Heads 2 .. k of a blockwise decoder, as a block drafter that has no layers and reads the
    verifier's last state. Use ``of``."""

    @classmethod
    def of(cls, decoder: Any, backend: Backend, size: int, pad: int) -> NativeHeads | None:
        """For a decoder whose heads the library runs; None for others.

        Args:
            decoder: of a ``BlockwiseTransformer``.
            backend: the verifier's.
            size: k, 2 or more.
            pad: never drafted.
        """
        activation = activation_number(decoder.block_heads.activation)
        if not isinstance(backend, NativeBackend) or activation is None:
            return None
        tables = EmbeddingTables.find(decoder)
        if tables is None or decoder.project_out_dim is not None:
            return None
        layers = backend.once(
            ("vocabulary", decoder), lambda: backend.decoder(_VocabularyAlone(decoder), "--path")
        )
        assert isinstance(layers, NativeDecoder)
        drafter = cls(layers, tables, pad, Masks(torch.zeros(decoder.block_heads.dim)))
        drafter._read_heads(decoder.block_heads, activation, size)
        drafter.reads = True
        return drafter

    def _read_heads(self, heads: Any, activation: int, size: int) -> None:
        library, number_format = self.layers.stack.library, self.layers.stack.number_format
        rows = heads.rows(2, size)
        hidden = NativeLinear.of(library, (heads.hidden,), number_format)
        weight, bias = heads.output.weight[rows], heads.output.bias[rows]
        output = NativeLinear(library, weight, bias, number_format)
        self._heads = hidden, output  # their memory may be borrowed
        library.call(
            "specdec_drafter_heads", self.pointer, hidden.pointer, activation, output.pointer
        )
