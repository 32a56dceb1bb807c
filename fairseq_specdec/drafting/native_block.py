"""The block drafter of GAD and SpecDec (Ge et al. 2022, equation 6; Xia et al. 2023, equations 5 to
7), with a draft in one call of the native library."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fairseq_specdec.engine.backend import AnyDecoder
from fairseq_specdec.engine.memory import replace
from fairseq_specdec.engine.native.decoder import (
    EmbeddingTables,
    NativeDecoder,
    NativeSession,
    hypotheses_of,
)
from fairseq_specdec.engine.native.library import Library
from fairseq_specdec.engine.native.linear import NativeLinear, floats, pointer
from fairseq_specdec.engine.native.structures import Drafting
from fairseq_specdec.engine.session import learned_limit, position_rows
from fairseq_specdec.engine.state import Draft, Rows, first_slots
from fairseq_specdec.errors import UsageError

from .base import Budget, Costs, DraftOptions, DraftSession, Source
from .chain_search import chain_candidates
from .state_products import state_projections
from .token_choice import without_repeats


class Masks(NamedTuple):
    """The masks of a drafter, and where they stand.

    Attributes:
        embedding: float32 [C], scaled, without a position.
        positions: position embeddings of tokens and masks; None without.
        padding_idx: of ``positions``.
        see_tokens: there are layers, in which masks attend to the tokens before them.
    """

    embedding: Tensor
    positions: nn.Module | None = None
    padding_idx: int = 0
    see_tokens: bool = False

    @classmethod
    def of(cls, decoder: Any) -> Masks:
        """Those of a ``BlockDecoder``."""
        return cls(
            float(decoder.embed_scale) * floats(decoder.mask_embedding), decoder.embed_positions,
            decoder.padding_idx, decoder.num_layers > 0,
        )  # fmt: skip


class NativeBlockDrafter:
    """Weights of a block drafter in the library; sessions share them. Use ``find``.

    Args:
        layers: its packed layers.
        tables: its embeddings.
        pad: never drafted.
        masks: its masks.
        word_list: a ``WordList`` to draft from, or None for all words.
    """

    def __init__(
        self,
        layers: NativeDecoder,
        tables: EmbeddingTables,
        pad: int,
        masks: Masks,
        word_list: Any = None,
    ) -> None:
        self.layers = layers
        self.tables = tables
        self.masks = masks
        self.limit = learned_limit(masks.positions, masks.padding_idx)
        self.reads = False
        stack, library = layers.stack, layers.stack.library
        self.pointer = ctypes.c_void_p()
        library.call(
            "specdec_drafter_new", stack.pointer, masks.embedding.numel(),
            pointer(masks.embedding), pad, ctypes.byref(self.pointer),
        )  # fmt: skip
        weakref.finalize(self, library.free, "specdec_drafter_free", self.pointer)
        self.word_list = word_list
        if word_list is not None:
            library.call("specdec_drafter_lists", self.pointer)
        # Those of batches that are over; list operations are atomic, so threads may share it.
        self._spare: list[NativeWords] = []
        self._positions: Tensor | None = None

    def _read_states(self, decoder: Any) -> None:
        """The projections of the verifier's states, as one product."""
        stack, library = self.layers.stack, self.layers.stack.library
        modules = tuple(each.project for each in state_projections(decoder))
        states = NativeLinear.of(library, modules, stack.number_format)
        if stack.frees:
            replace(modules, states)
        self.reads = True
        layers_read = decoder.mask_states.layers
        library.call("specdec_drafter_states", self.pointer, layers_read, states.pointer)

    def _read_chain(self, decoder: Any) -> None:
        """Products with the vocabulary are made once, and looked up, as in ``ChainSearch``."""
        chain, dim = decoder.chain, decoder.embed_dim
        of_past = floats(chain.of_past.weight)
        of_token = decoder.embed_scale * floats(decoder.embed_tokens.weight) @ of_past[:, :dim].t()
        for_token = floats(decoder.output_projection.weight) @ floats(chain.out.weight)
        words = self.layers.stack.words  # a row for each: the library looks them up by token
        if not of_token.size(0) == for_token.size(0) == words:
            raise UsageError(
                "--drafter-path",
                f"the chain's tables have {of_token.size(0)} and {for_token.size(0)} rows, "
                f"the vocabulary {words}",
            )
        tensors = [
            floats(chain.of_mask.weight),
            floats(chain.of_mask.bias),
            of_past[:, dim:].contiguous(),
            of_token.contiguous(),
            for_token.contiguous(),
        ]
        pointers = [pointer(tensor) for tensor in tensors]
        self.layers.stack.library.call(
            "specdec_drafter_chain", self.pointer, chain.width, *pointers
        )

    @classmethod
    def find(
        cls, decoder: Any, layers: AnyDecoder, options: DraftOptions, word_list: Any = None
    ) -> NativeBlockDrafter | None:
        """For a drafter that the library runs as a whole; None for others."""
        if not isinstance(layers, NativeDecoder) or not layers.plain:
            return None
        if decoder.bidirectional_prefix or options.sampler is not None:
            return None
        if not options.verified:  # they need the tokens' probabilities
            return None
        tables = EmbeddingTables.find(decoder)
        if tables is None:
            return None
        drafter = cls(layers, tables, options.pad, Masks.of(decoder), word_list)
        if decoder.mask_states is not None:
            drafter._read_states(decoder)
        if decoder.chain is not None:
            drafter._read_chain(decoder)
        return drafter

    def words_of(self, src_tokens: Tensor) -> NativeWords | None:
        """The words to draft for a batch; None for all words."""
        if self.word_list is None:
            return None
        try:
            words = self._spare.pop()
        except IndexError:
            words = NativeWords(self.layers.stack.library)
        words.open(self.pointer, self.word_list.of(src_tokens))
        return words

    def give_back(self, words: NativeWords) -> None:
        """Keep the memory of lists that are not needed any more for a later batch."""
        self._spare.append(words)

    def positions(self, count: int) -> Tensor | None:
        """[count or more, C], the embeddings of positions 0, 1, ...; all there are of learned ones;
        None for a model without."""
        embed, padding_idx = self.masks.positions, self.masks.padding_idx
        table = self._positions
        if embed is None:
            return None
        if self.limit is not None:
            count = min(count, self.limit)
        if table is None or table.size(0) < count:
            rows = position_rows(embed, padding_idx, count)
            table = self._positions = floats(rows)  # any thread's is as good
        return table


class NativeWords:
    """The library's ``WordList``: the words that each row of a batch drafts from, with their part
    of the vocabulary's product packed."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.pointer = ctypes.c_void_p()
        library.call("specdec_words_new", ctypes.byref(self.pointer))
        weakref.finalize(self, library.free, "specdec_words_free", self.pointer)

    def open(self, drafter: Any, lists: Any) -> None:
        """Begin a batch."""
        sizes, ids = lists.sizes.contiguous(), lists.ids.contiguous()
        self.library.call(
            "specdec_words_open", self.pointer, drafter, len(sizes), pointer(sizes, torch.long),
            pointer(ids, torch.long),
        )  # fmt: skip

    def select(self, rows: Tensor) -> None:
        kept = rows.contiguous()
        self.library.call(
            "specdec_words_select", self.pointer, len(kept), pointer(kept, torch.long)
        )


class NativeBlockSession(DraftSession):
    """A session whose drafts take one call of the library."""

    def __init__(
        self, drafter: NativeBlockDrafter, options: DraftOptions, source: Source, encoder_out: Any
    ) -> None:
        self.drafter, self.options = drafter, options
        self.candidates = chain_candidates(options)
        self.verifier = source.verifier if drafter.reads else None
        size = options.block_size
        self.layers = drafter.layers.open(
            encoder_out, first_slots(source.max_len + 1) + 2 * size + 2
        )
        self.table = drafter.positions(source.max_len + size + 1)
        self.words = drafter.words_of(source.net_input["src_tokens"])
        self.tables = drafter.tables.of(self.table)

    def native_form(self, rows: Rows, budget: Budget, costs: Costs) -> Drafting | None:
        return None if self.options.collapse_repeats else self._drafting(rows, budget, costs)

    def _drafting(self, rows: Rows, budget: Budget, costs: Costs) -> Drafting:
        options, limit, alone = self.options, self.drafter.limit, len(rows.lengths_cpu) == 1
        block = options.block_size if budget is None else min(budget, options.block_size)
        drafting = Drafting(
            self.drafter.pointer, self.layers.buffers.pointer, None, self.tables, block,
            -1 if limit is None else limit, candidates=self.candidates[0 if alone else 1],
            confidence=options.confidence, words=None if self.words is None else self.words.pointer,
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
        self.layers.weights.stack.library.call(
            "specdec_draft", ctypes.byref(drafting), count, ctypes.byref(hypotheses_of(rows)),
            pointer(tokens, torch.long), pointer(sizes, torch.long),
        )  # fmt: skip
        if self.options.collapse_repeats:
            tokens, sizes = without_repeats(tokens, sizes)
        return Draft(tokens[:, : int(sizes.max())], sizes)

    def keep(self, rows: Tensor, kept: list[int]) -> None:
        self.layers.keep(rows, len(kept))
        if self.words is not None:
            self.words.select(rows)

    def close(self) -> None:
        self.layers.close()
        if self.words is not None:
            self.drafter.give_back(self.words)
            self.words = None
