"""The drafter of blockwise parallel decoding: heads of the verifier itself."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_specdec.engine.backend import TORCH, Backend
from fairseq_specdec.engine.draft import Draft
from fairseq_specdec.engine.eager.linear import Linear
from fairseq_specdec.engine.eager.packed_heads import PackedHeads
from fairseq_specdec.engine.eager.vocabulary import vocabulary_product
from fairseq_specdec.engine.hypotheses import Hypotheses
from fairseq_specdec.engine.work import Pass

from .base import Budget, Costs, Drafter, DraftOptions, DraftSession, ReadyDrafter, Source
from .native_block import NativeBlockSession
from .native_heads import NativeHeads


class _Weights(NamedTuple):
    """Heads 2 .. k and the products after them."""

    heads: PackedHeads
    project_out: Linear | None
    vocabulary: Callable[[Tensor], Tensor]


class BlockwiseHeadsDrafter(Drafter):
    """Drafts k - 1 tokens with heads 2 .. k at the state that predicted the last accepted token.

    That state is a by-product of verification, so no model is run for a draft: the n-th
    verification and the (n+1)-st prediction are one invocation, m / k + 1 in all at best (Stern et
    al. 2018, section 4). The first invocation of a sentence has nothing to verify.

    Args:
        model: the verifier, a ``BlockwiseTransformer``; with an ensemble the first of it.
        block_size: k, at most what the heads were trained for.
    """

    def __init__(self, model: Any, block_size: int, pad: int) -> None:
        self.model = model
        self.size = self.block_size = block_size
        self.pad = pad
        self.read_layers = (len(model.decoder.layers),)

    def prepare(self, verifier: Any, backend: Backend = TORCH) -> ReadyDrafter:
        weights = native = None
        decoder = verifier.decoder
        if self.size > 1:
            native = backend.once(
                ("heads", decoder, self.size),
                lambda: NativeHeads.of(decoder, backend, self.size, self.pad),
            )
        if self.size > 1 and native is None:
            weights = backend.once(("weights", decoder, self.size), lambda: self._read(decoder))
        return ReadyBlockwiseHeadsDrafter(weights, native, self.size, self.pad)

    def _read(self, decoder: Any) -> _Weights:
        narrow = decoder.project_out_dim
        return _Weights(
            PackedHeads(decoder.block_heads, 2, self.size),
            None if narrow is None else Linear.of(narrow),
            vocabulary_product(decoder),
        )


class ReadyBlockwiseHeadsDrafter(NamedTuple):
    """Drafts with heads whose weights were read. ``native``: heads 2 .. k in the library.
    ``weights``: the same in torch, where the library has none. Both are None where k is 1."""

    weights: _Weights | None
    native: NativeHeads | None
    block_size: int
    pad: int

    @property
    def in_library(self) -> bool:
        return self.native is not None

    def passes(self, rows: int, size: int) -> Sequence[Pass] | None:
        return None if self.native is None else self.native.passes(rows, size, 1)

    def open(self, source: Source) -> DraftSession:
        if self.native is not None:
            options = DraftOptions(self.block_size - 1, self.pad, self.pad)
            return NativeBlockSession(self.native, options, source, source.encoder_out)
        return BlockwiseHeadsSession(self.weights, self.block_size, self.pad, source.max_len)


class BlockwiseHeadsSession(DraftSession):
    """The hidden states of one batch that the heads read."""

    def __init__(self, weights: _Weights | None, block_size: int, pad: int, max_len: int) -> None:
        self.weights = weights
        self.block_size = block_size
        self.pad = pad
        self.max_len = max_len
        self.state: Tensor | None = None

    def propose(self, hypotheses: Hypotheses, budget: Budget = None, costs: Costs = None) -> Draft:
        room = min(self.block_size - 1, self.max_len - hypotheses.shortest)
        if budget == 0 or self.state is None or self.weights is None or room < 1:
            return Draft.empty(hypotheses.lengths)
        weights, state = self.weights, self.state
        if weights.project_out is not None:
            state = weights.project_out(state)
        logits = weights.vocabulary(weights.heads(state)[:, :room])
        logits[..., self.pad] = float("-inf")
        return Draft(logits.argmax(-1), torch.full_like(hypotheses.lengths, room))

    def commit(self, sizes: Tensor, hidden_states: Tensor | None) -> None:
        assert hidden_states is not None
        last = (sizes - 1)[:, None, None].expand(-1, 1, hidden_states.size(2))
        self.state = hidden_states.gather(1, last).squeeze(1)

    def select(self, rows: Tensor, rows_cpu: list[int]) -> None:
        if self.state is not None:
            self.state = self.state.index_select(0, rows)
