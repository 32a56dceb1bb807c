"""The block drafter of GAD and SpecDec (Ge et al. 2022, equation 6; Xia et al. 2023, equations 5 to
7), with a draft in one call of the native library."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from fairseq_specdec.engine.backend import TORCH, AnyDecoder
from fairseq_specdec.engine.memory import replace
from fairseq_specdec.engine.native.decoder import (
    EmbeddingTables,
    NativeDecoder,
    NativeSession,
    hypotheses_of,
)
from fairseq_specdec.engine.native.linear import NativeLinear
from fairseq_specdec.engine.native.structures import Drafting
from fairseq_specdec.engine.session import Embedding, learned_limit
from fairseq_specdec.engine.state import Draft, Rows, first_slots, floats, pointer
from fairseq_specdec.errors import UsageError

from .base import Budget, Costs, DraftOptions, DraftSession, Source
from .token_choice import chain_tables


def state_projections(decoder: Any) -> tuple[Any, ...]:
    """The linear layers of a decoder that reads states: for the prefix and for masks."""
    return decoder.prefix_states.project, decoder.mask_states.project


class NativeBlockDrafter:
    """Weights of a block drafter in the library; sessions share them.

    Args:
        layers: its packed layers.
        tables: its embeddings.
        pad: never drafted.
        mask: float32 [C], a mask before the first layer, without a position.
        embedding: of a decoder with positions, for tokens and masks; or None.
        word_list: a ``WordList`` to draft from, or None for all words.
    """

    reads = False  # the verifier's states
    products: tuple[NativeLinear | None, ...] = ()  # of these states

    def __init__(
        self,
        layers: NativeDecoder,
        tables: EmbeddingTables,
        pad: int,
        mask: Tensor,
        embedding: Embedding | None = None,
        word_list: Any = None,
    ) -> None:
        self.word_list = word_list
        self.layers, self.tables, self.embedding = layers, tables, embedding
        own = None if embedding is None else embedding.decoder
        self.limit = None if own is None else learned_limit(own.embed_positions, own.padding_idx)
        self.library = layers.stack.library
        self.pointer = self.library.make(
            self, "drafter", layers.stack.pointer, mask.numel(), pointer(mask), pad,
            word_list is not None,
        )  # fmt: skip

    @classmethod
    def find(
        cls, decoder: Any, layers: AnyDecoder, pad: int, word_list: Any
    ) -> NativeBlockDrafter | None:
        """For a ``BlockDecoder`` that the library runs as a whole; None for others."""
        tables = EmbeddingTables.find(decoder)
        if not isinstance(layers, NativeDecoder) or not layers.plain or tables is None:
            return None
        mask = float(decoder.embed_scale) * floats(decoder.mask_embedding)
        made = cls(layers, tables, pad, mask, Embedding(decoder, TORCH.linear), word_list)
        if decoder.mask_states is not None:
            made._read_states(decoder)
        if decoder.chain is not None:
            made._read_chain(decoder)
        return made

    def _read_states(self, decoder: Any) -> None:
        """The projections of the verifier's states, as one product."""
        stack, modules = self.layers.stack, state_projections(decoder)
        states = NativeLinear.of(self.library, modules, stack.number_format)
        if stack.frees:
            replace(modules, states)
        layers_read = decoder.mask_states.layers
        self.add_states(layers_read, None, 0, states)

    def add_states(
        self, layers: int, hidden: NativeLinear | None, activation: int, states: NativeLinear
    ) -> None:
        """Read the verifier's hidden states of so many layers; ``hidden`` comes before
        ``states``, or is None."""
        self.reads, self.products = True, (hidden, states)  # their memory may be borrowed
        self.library.call(
            "specdec_drafter_states", self.pointer, layers,
            None if hidden is None else hidden.pointer, activation, states.pointer,
        )  # fmt: skip

    def _read_chain(self, decoder: Any) -> None:
        of_mask = decoder.chain.of_mask
        of_token, of_state, for_token = chain_tables(decoder)
        words = self.layers.stack.words  # a row for each: the library looks them up by token
        if not of_token.size(0) == for_token.size(0) == words:
            raise UsageError(
                "--drafter-path",
                f"the chain's tables have {of_token.size(0)} and {for_token.size(0)} rows, "
                f"the vocabulary {words}",
            )
        tensors = [
            floats(each) for each in (of_mask.weight, of_mask.bias, of_state, of_token, for_token)
        ]
        self.library.call(
            "specdec_drafter_chain", self.pointer, decoder.chain.width, *map(pointer, tensors)
        )

    def positions(self, count: int) -> Tensor | None:
        """[count or more, C], the embeddings of positions 0, 1, ...; all there are of learned ones;
        None for a model without."""
        if self.embedding is None:
            return None
        count = count if self.limit is None else min(count, self.limit)
        return self.embedding.positions(count, torch.empty(0))


class NativeBlockSession(DraftSession):
    """A session whose drafts take one call of the library. ``candidates``: of the chain, if there
    is one, as for ``ChainSearch``."""

    def __init__(
        self,
        drafter: NativeBlockDrafter,
        options: DraftOptions,
        source: Source,
        encoder_out: Any,
        candidates: tuple[int, int] = (1, 1),
    ) -> None:
        self.drafter, self.options, self.candidates = drafter, options, candidates
        self.verifier = source.verifier if drafter.reads else None
        size = options.block_size
        self.layers = drafter.layers.open(
            encoder_out, first_slots(source.max_len + 1) + 2 * size + 2
        )
        self.table = drafter.positions(source.max_len + size + 1)
        if drafter.word_list is not None:
            words = drafter.word_list.of(source.net_input["src_tokens"])
            sizes, ids = (each.contiguous() for each in words)
            drafter.library.call(
                "specdec_session_words", self.layers.buffers.pointer, drafter.pointer, len(sizes),
                pointer(sizes, torch.long), pointer(ids, torch.long),
            )  # fmt: skip
        self.tables = drafter.tables.of(self.table)

    def native_form(self, rows: Rows, budget: Budget, costs: Costs) -> Drafting:
        return self._drafting(rows, budget, costs)

    def _drafting(self, rows: Rows, budget: Budget, costs: Costs) -> Drafting:
        options, limit, alone = self.options, self.drafter.limit, len(rows.lengths_cpu) == 1
        block = options.block_size if budget is None else min(budget, options.block_size)
        drafting = Drafting(
            self.drafter.pointer, self.layers.buffers.pointer, None, self.tables, block,
            -1 if limit is None else limit, candidates=self.candidates[0 if alone else 1],
            confidence=options.confidence,
        )  # fmt: skip
        if costs is not None and options.any_confidence:
            drafting.kept_costs = (ctypes.c_float * len(costs))(*costs)
            drafting.costs = ctypes.addressof(drafting.kept_costs)
        states = None
        if isinstance(self.verifier, NativeSession):
            states = self.verifier.states_for(rows.tokens.size(1))
        elif self.verifier is not None and self.verifier.states is not None:
            states = self.verifier.states.float().contiguous()
        if states is not None:
            drafting.states, drafting.state_stride = pointer(states), states.size(1)
            drafting.kept_states = states
        return drafting

    def propose(self, rows: Rows, budget: Budget = None, costs: Costs = None) -> Draft:
        if budget == 0:
            return Draft.empty(rows.lengths)
        drafting = self._drafting(rows, budget, costs)
        count = len(rows.lengths_cpu)
        tokens = torch.zeros(count, drafting.block, dtype=torch.long)  # valid after each draft, too
        sizes = torch.empty(count, dtype=torch.long)
        self.drafter.library.call(
            "specdec_draft", ctypes.byref(drafting), count, ctypes.byref(hypotheses_of(rows)),
            pointer(tokens, torch.long), pointer(sizes, torch.long),
        )  # fmt: skip
        return Draft(tokens[:, : int(sizes.max())], sizes)

    def keep(self, rows: Tensor, kept: list[int]) -> None:
        self.layers.keep(rows, len(kept))

    def close(self) -> None:
        self.layers.close()
