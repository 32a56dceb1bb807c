"""The drafter of blockwise parallel decoding: heads of the verifier itself."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fairseq_specdec.engine.backend import TORCH, Backend, NativeBackend
from fairseq_specdec.engine.native.decoder import EmbeddingTables, NativeDecoder
from fairseq_specdec.engine.native.linear import NativeLinear
from fairseq_specdec.engine.native.stack import activation_number
from fairseq_specdec.engine.state import Draft, Rows
from fairseq_specdec.engine.torch_layers import Linear, PackedHeads

from .base import Budget, Costs, Drafter, DraftOptions, DraftSession, Source
from .nar_block import states_at
from .native_block import NativeBlockDrafter, NativeBlockSession
from .token_choice import shortened


class _VocabularyAlone:
    """A blockwise decoder's vocabulary, as a stack without layers."""

    layers = ()
    layer_norm = project_out_dim = None

    def __init__(self, decoder: Any) -> None:
        self.embed_tokens = decoder.embed_tokens
        self.output_projection = decoder.output_projection
        self.like = decoder.block_heads.hidden.bias


def native_heads(decoder: Any, backend: Backend, size: int, pad: int) -> NativeBlockDrafter | None:
    """Heads 2 .. k in the library, as a block drafter that has no layers and reads the verifier's
    last state; None where it does not run them.

    Args:
        decoder: of a ``BlockwiseTransformer``.
        backend: the verifier's.
        size: k, 2 or more.
        pad: never drafted.
    """
    heads, tables = decoder.block_heads, EmbeddingTables.find(decoder)
    activation = activation_number(heads.activation)
    if not isinstance(backend, NativeBackend) or activation is None or tables is None:
        return None
    if decoder.project_out_dim is not None:
        return None
    layers = backend.once(
        ("vocabulary", decoder), lambda: backend.decoder(_VocabularyAlone(decoder))
    )
    assert isinstance(layers, NativeDecoder)
    drafter = NativeBlockDrafter(layers, tables, pad, torch.zeros(heads.dim))
    library, number_format, rows = drafter.library, layers.stack.number_format, heads.rows(2, size)
    hidden = NativeLinear.of(library, (heads.hidden,), number_format)
    weight, bias = heads.output.weight[rows], heads.output.bias[rows]
    output = NativeLinear(library, weight, bias, number_format)
    drafter.add_states(1, hidden, activation, output)
    return drafter


class BlockwiseHeadsDrafter(Drafter):
    """Drafts k - 1 tokens with heads 2 .. k at the state that predicted the last accepted token.

    That state is a by-product of verification, so no model is run for a draft: the n-th
    verification and the (n+1)-st prediction are one invocation, m / k + 1 in all at best (Stern et
    al. 2018, section 4). The first invocation of a sentence has nothing to verify.

    Args:
        model: the verifier, a ``BlockwiseTransformer``; with an ensemble the first of it.
        block_size: k, at most what the heads were trained for.
    """

    # Of a prepared drafter, heads 2 .. k: in the library, or in torch with the products after them.
    native: NativeBlockDrafter | None = None
    heads: PackedHeads | None = None
    project_out: Linear | None = None
    vocabulary: Callable[[Tensor], Tensor]

    def __init__(self, model: Any, block_size: int, pad: int) -> None:
        self.model = model
        self.size = self.block_size = block_size
        self.pad = pad
        self.read_layers = (len(model.decoder.layers),)

    def prepare(self, verifier: Any, backend: Backend = TORCH) -> BlockwiseHeadsDrafter:
        key = ("heads", verifier.decoder, self.size)
        return backend.once(key, lambda: self._ready(verifier.decoder, backend))

    def _ready(self, decoder: Any, backend: Backend) -> BlockwiseHeadsDrafter:
        ready = copy.copy(self)
        if self.size == 1:
            return ready
        ready.native = native_heads(decoder, backend, self.size, self.pad)
        ready.in_library = ready.native is not None
        if ready.native is None:
            narrow = decoder.project_out_dim
            ready.heads = PackedHeads(decoder.block_heads, 2, self.size)
            ready.project_out = None if narrow is None else Linear.of(narrow)
            ready.vocabulary = Linear.of(decoder.output_projection)
        return ready

    def open(self, source: Source) -> DraftSession:
        if self.native is not None:
            options = DraftOptions(self.size - 1, self.pad, self.pad)
            return NativeBlockSession(self.native, options, source, source.encoder_out)
        return BlockwiseHeadsSession(self, source)


class BlockwiseHeadsSession(DraftSession):
    """The heads of one batch, which read the verifier's states."""

    def __init__(self, drafter: BlockwiseHeadsDrafter, source: Source) -> None:
        self.drafter = drafter
        self.verifier = source.verifier

    def propose(self, rows: Rows, budget: Budget = None, costs: Costs = None) -> Draft:
        drafter, heads = self.drafter, self.drafter.heads
        states = None if self.verifier is None else self.verifier.states
        if budget == 0 or heads is None or states is None or rows.shortest == 0:
            return Draft.empty(rows.lengths)
        state = states_at(states, rows.lengths.unsqueeze(1)).squeeze(1)
        if drafter.project_out is not None:
            state = drafter.project_out(state)
        logits = drafter.vocabulary(heads(state))
        logits[..., drafter.pad] = float("-inf")
        return Draft(*shortened(logits.argmax(-1), None, 0.0))
