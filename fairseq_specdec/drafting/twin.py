"""The verifier's twin: the verifier itself in 8 bits, whose greedy output is the draft.

It needs no training, and its tokens are seldom rejected. A step of a large model reads all weights
from memory, so a step of the twin takes a fraction of the verifier's, which then checks a block in
one pass. It resembles ML-SpecQD (2025), which drafts with a copy of the model in MXFP4.
"""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Callable
from typing import Any

from torch import Tensor

from fairseq_specdec.acceptance.sampling import Sampler
from fairseq_specdec.engine.backend import TORCH, AnySession, Backend, NativeBackend, tell_once
from fairseq_specdec.engine.native.decoder import EmbeddingTables, NativeDecoder, NativeSession
from fairseq_specdec.engine.native.structures import Drafting
from fairseq_specdec.engine.state import Draft, Rows
from fairseq_specdec.engine.transformer import Transformer

from .autoregressive import AutoregressiveDrafter, AutoregressiveSession
from .base import Budget, Costs, Drafter, DraftOptions, DraftSession, NoDrafter, Source

# Tokens that the twin drafts before the verifier checks them.
_BLOCK = 8
# Bytes of a twin; a smaller one lies in the cache, and so does its verifier.
_SMALLEST = 1 << 25


class TwinDrafter(AutoregressiveDrafter):
    """Drafts with the verifier's own weights in int8, on the native backend.

    Args:
        vocabulary: has the list of tokens that the twin chooses among; or chooses among all.
        pad, eos, sampler, temperature: as in ``DraftOptions``.
    """

    in_library = True
    first_chance = 0.95
    tables: EmbeddingTables | None  # of a prepared drafter: for drafts in the library

    def __init__(
        self, vocabulary: NoDrafter, pad: int, eos: int, sampler: Sampler | None, temperature: float
    ) -> None:
        options = DraftOptions(_BLOCK, pad, eos, sampler=sampler, temperature=temperature)
        super().__init__(None, options)
        self.vocabulary = vocabulary

    def prepare(self, verifier: Any, backend: Backend = TORCH) -> Drafter:
        if not isinstance(backend, NativeBackend):
            return self.vocabulary
        ready, in_bytes = copy.copy(self), backend.packing("int8", frees=False)
        ready.model = verifier
        ready.weights = in_bytes.once(
            ("twin", verifier), lambda: Transformer.read(verifier, in_bytes, own_encoder=False)
        )
        decoder = ready.weights.decoder
        if not isinstance(decoder, NativeDecoder) or decoder.stack.nbytes < _SMALLEST:
            tell_once("--twin int8 is not used: the model is too small to gain by it", logging.INFO)
            return self.vocabulary
        ready.tables = EmbeddingTables.find(verifier.decoder) if decoder.plain else None
        return ready

    def open(self, source: Source) -> DraftSession:
        begin = functools.partial(super().open, source)
        return _TwinSession(begin, self.vocabulary.open(source), self.tables)


class _TwinSession(DraftSession):
    """Drafts in the library where it can.

    Args:
        begin: begins the twin's batch. It projects the source, and is not called before a draft.
        vocabulary: lists tokens, for the twin and where the verifier decodes without drafts.
        tables: None where the library runs the twin's layers at most.
    """

    def __init__(
        self,
        begin: Callable[[], DraftSession],
        vocabulary: DraftSession,
        tables: EmbeddingTables | None,
    ) -> None:
        self._begin, self.vocabulary, self.tables = begin, vocabulary, tables
        self._begun: AutoregressiveSession | None = None

    def begun(self) -> AutoregressiveSession:
        """The twin's batch."""
        if self._begun is None:
            begun = self._begin()
            assert isinstance(begun, AutoregressiveSession)
            if self.tables is not None:
                self.vocabulary.list_tokens(begun.session)
            self._begun = begun
        return self._begun

    def list_tokens(self, verifier: AnySession) -> int:
        return self.vocabulary.list_tokens(verifier)

    def native_form(self, rows: Rows, budget: Budget, costs: Costs) -> Drafting | None:
        if self.tables is None:
            return None
        session = self.begun().session
        assert isinstance(session, NativeSession)
        block = _BLOCK if budget is None else min(budget, _BLOCK)
        tables = self.tables.of(session.positions)
        return Drafting(None, session.buffers.pointer, None, tables, block, -1)

    def propose(self, rows: Rows, budget: Budget = None, costs: Costs = None) -> Draft:
        if budget == 0:
            return Draft.empty(rows.lengths)
        return self.begun().propose(rows, budget, costs)

    def keep(self, rows: Tensor, kept: list[int]) -> None:
        self.begun().keep(rows, kept)

    def close(self) -> None:
        if self._begun is not None:
            self._begun.close()
