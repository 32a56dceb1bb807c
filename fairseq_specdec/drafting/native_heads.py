"""The heads of blockwise parallel decoding (Stern et al. 2018, section 6) in the native library."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, List, Optional

import torch

from fairseq_specdec.engine.backend import Backend, NativeBackend
from fairseq_specdec.engine.native.decoder import NativeDecoder
from fairseq_specdec.engine.native.embedding import EmbeddingTables
from fairseq_specdec.engine.native.linear import NativeLinear
from fairseq_specdec.engine.native.stack import activation_number
from fairseq_specdec.engine.work import Pass

from .native_block import NativeBlockDrafter


def _head_decoder(decoder: Any) -> Any:
    """What a ``NativeBlockDrafter`` reads of a ``BlockDecoder`` without layers, whose vocabulary is
    that of a blockwise decoder."""
    heads = decoder.block_heads
    kept = ("embed_tokens", "output_projection", "embed_scale", "padding_idx")
    more = ("quant_noise", "project_in_dim", "layernorm_embedding", "adaptive_softmax")
    return SimpleNamespace(
        **{name: getattr(decoder, name) for name in kept},
        **{name: getattr(decoder, name, None) for name in more},
        layers=[], num_layers=0, layer_norm=None, project_out_dim=None, embed_positions=None,
        like=heads.hidden.bias, start_symbol=True, whole_blocks=False, chain=None,
        mask_embedding=torch.zeros(heads.dim), mask_states=None, prefix_states=None,
    )  # fmt: skip


class NativeHeads(NativeBlockDrafter):
    """Heads 2 .. k of a blockwise decoder, as a block drafter that has no layers and reads the
    verifier's last state. Use ``of``."""

    @classmethod
    def of(cls, decoder: Any, backend: Backend, size: int, pad: int) -> Optional[NativeHeads]:
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
        alone = _head_decoder(decoder)
        tables = EmbeddingTables.find(alone)
        wide = decoder.project_out_dim is not None or decoder.adaptive_softmax is not None
        if tables is None or wide:
            return None
        layers = backend.decoder(alone, "--path")
        assert isinstance(layers, NativeDecoder)
        drafter = cls(alone, layers, tables, pad, 0)
        drafter._read_heads(decoder.block_heads, activation, size)
        return drafter

    def _read_heads(self, heads: Any, activation: int, size: int) -> None:
        library, number_format = self.layers.stack.library, self.layers.stack.number_format
        rows = heads.rows(2, size)
        hidden = NativeLinear.of(library, (heads.hidden,), number_format)
        weight, bias = heads.output.weight[rows], heads.output.bias[rows]
        output = NativeLinear(library, weight, bias, number_format)
        self._heads = hidden, output  # their memory may be borrowed
        for product in self._heads:
            self.states_work.add(product.stored, product.size * product.width, product.nbytes)
        library.call(
            "specdec_drafter_heads", self.pointer, hidden.pointer, activation, output.pointer
        )

    def passes(self, rows: int, size: int, fresh: float) -> List[Pass]:
        return [Pass(self.layers.stack.vocabulary_work, size), Pass(self.states_work, 1)]
