"""The verifier's twin: the verifier itself in 8 bits, whose greedy output is the draft.

It needs no training, and its tokens are seldom rejected. A step of a large model reads all weights
from memory, so a step of the twin takes a fraction of the verifier's, which then checks a block in
one pass. It resembles ML-SpecQD (2025), which drafts with a copy of the model in MXFP4.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import logging
import pathlib
from collections.abc import Callable
from typing import Any

from torch import Tensor

from fairseq_specdec.acceptance.sampling import Sampler
from fairseq_specdec.engine.backend import TORCH, Backend, NativeBackend, quickest_format, tell_once
from fairseq_specdec.engine.native.decoder import EmbeddingTables, NativeDecoder, NativeSession
from fairseq_specdec.engine.native.packed_file import lost
from fairseq_specdec.engine.native.structures import Drafting
from fairseq_specdec.engine.state import Draft, Rows
from fairseq_specdec.engine.transformer import Transformer

from .autoregressive import AutoregressiveDrafter, AutoregressiveSession
from .base import (
    Budget,
    Costs,
    Drafter,
    DraftOptions,
    DraftSession,
    NoDrafter,
    SilentSession,
    Source,
)
from .copying import InputCopyDrafter
from .vocabulary import Vocabulary

# Tokens that the twin drafts before the verifier checks them.
_BLOCK = 8
# Tokens of a draft where a given text drafts for the twin, and those for each that matched.
_COPIED, _TIMES = 24, 3
# Bytes of a twin; a smaller one lies in the cache, and so does its verifier.
_SMALLEST = 1 << 25


class TwinDrafter(AutoregressiveDrafter):
    """Drafts with the verifier's own weights in int8, on the native backend.

    Attributes:
        text: drafts for the twin, from a given text; or None.

    Args:
        vocabulary: has the list of tokens that the twin chooses among; None for all.
        alone: it drafts for sentences that are decoded one by one, and for no batches.
        pad, eos, sampler, temperature: as in ``DraftOptions``.
    """

    in_library = True
    twin: str = "int8"
    first_chance = 0.95
    text: InputCopyDrafter | None = None
    # Of a prepared drafter: for drafts in the library, if that runs more than layers.
    tables: EmbeddingTables | None

    def __init__(
        self,
        vocabulary: Vocabulary | None,
        alone: bool,
        pad: int,
        eos: int,
        sampler: Sampler | None,
        temperature: float,
    ) -> None:
        options = DraftOptions(_BLOCK, pad, eos, sampler=sampler, temperature=temperature)
        super().__init__(None, options)
        self.vocabulary, self.alone = vocabulary, alone

    def prepare(self, verifier: Any, backend: Backend = TORCH) -> Drafter:
        alone = self.text or NoDrafter()
        if not isinstance(backend, NativeBackend):
            return alone
        if lost(verifier.decoder, self.twin):
            tell_once("no twin drafts: weights that round need specdec-convert pack --twin int8")
            return alone
        ready, in_bytes = copy.copy(self), backend.packing(self.twin, frees=False)
        ready.model = verifier
        ready.weights = in_bytes.once(
            ("twin", verifier), lambda: Transformer.read(verifier, in_bytes, own_encoder=False)
        )
        decoder = ready.weights.decoder
        if not isinstance(decoder, NativeDecoder) or decoder.stack.nbytes < _SMALLEST:
            tell_once("--twin int8 is not used: the model is too small to gain by it", logging.INFO)
            return alone
        ready.tables = EmbeddingTables.find(verifier.decoder) if decoder.plain else None
        return ready

    def open(self, source: Source) -> DraftSession:
        text, copied = self.text, None
        if self.alone and len(source.net_input["src_tokens"]) > 1:
            return SilentSession() if text is None else text.open(source)
        if text is not None:
            copied = dataclasses.replace(text, max_suffix=None, times=_TIMES).open(source)
        return _TwinSession(functools.partial(super().open, source), self, source, copied)


@dataclasses.dataclass(eq=False)
class _TwinSession(DraftSession):
    """Drafts in the library where it can."""

    begin: Callable[[], DraftSession]  # the twin's batch, which projects the source: not in vain
    twin: TwinDrafter
    source: Source
    text: DraftSession | None  # drafts for the twin
    _begun: AutoregressiveSession | None = None

    def begun(self) -> AutoregressiveSession:
        """The twin's batch."""
        if self._begun is None:
            begun = self.begin()
            assert isinstance(begun, AutoregressiveSession)
            vocabulary = self.twin.vocabulary
            if vocabulary is not None and self.twin.tables is not None:
                assert isinstance(begun.session, NativeSession)
                vocabulary.open(self.source.net_input["src_tokens"], begun.session, drafts=True)
            self._begun = begun
        return self._begun

    def native_form(self, rows: Rows, budget: Budget, costs: Costs) -> Drafting | None:
        if self.twin.tables is None:
            return None
        session = self.begun().session
        assert isinstance(session, NativeSession)
        block = _BLOCK if budget is None else min(budget, _BLOCK)
        tables = self.twin.tables.of(session.positions)
        text = None if self.text is None else self.text.native_form(rows, _COPIED, None)
        width, copy = (block, None) if text is None else (max(block, text.block), text.copy)
        return Drafting(None, session.buffers.pointer, copy, tables, width, -1, steps=block)

    def propose(self, rows: Rows, budget: Budget = None, costs: Costs = None) -> Draft:
        if budget == 0:
            return Draft.empty(rows.lengths)
        return self.begun().propose(rows, budget, costs)

    def keep(self, rows: Tensor, kept: list[int]) -> None:
        self.begun().keep(rows, kept)

    def close(self) -> None:
        if self._begun is not None:
            self._begun.close()


def twin_pays(verifier: Any, backend: str) -> bool:
    """Whether a verifier on this ``--backend`` is so large that its twin is faster, and twice the
    twin's memory is left."""
    size = sum(weight.numel() for weight in verifier.decoder.parameters())
    if size < _SMALLEST or quickest_format(backend, [verifier]) != "int8":
        return False
    left = memory_left()
    if left is not None and left < 2 * size:
        problem = f"--twin int8 would be faster, but of {size >> 20} MiB twice as much must be left"
        tell_once(f"{problem}, and {left >> 20} MiB are", logging.INFO)
        return False
    return True


def memory_left() -> int | None:
    """Bytes that this machine, or the control group of this process, has left; None where neither
    says so."""
    left = []
    with contextlib.suppress(OSError, StopIteration):
        facts = pathlib.Path("/proc/meminfo").read_text().splitlines()
        line = next(line for line in facts if line.startswith("MemAvailable:"))
        left.append(1024 * int(line.split()[1]))
    with contextlib.suppress(OSError, ValueError):  # "max": no limit
        group = pathlib.Path("/sys/fs/cgroup")
        most, used = ((group / f"memory.{name}").read_text() for name in ("max", "current"))
        left.append(int(most) - int(used))
    return min(left, default=None)
