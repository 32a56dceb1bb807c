"""Beam search in the native library: many passes in one call."""

import ctypes
import weakref
from collections.abc import Sequence

from torch import Tensor

from fairseq_specdec.engine.native.decoder import EmbeddingTables
from fairseq_specdec.engine.native.structures import BeamFacts, BeamSetup, PrefixFacts, Rules
from fairseq_specdec.engine.transformer import Ensemble

from ..batch import OpenBatch
from ..native_chains import native_session, point_to_rows
from .lookahead import NOTHING, Lookahead, Reach
from .observed import Prefix
from .replay import BeamRules, Ended, NoTokenError

# Weights that the last-level cache holds, about.
_CACHE = 32 << 20


def reach_natively(session: Ensemble) -> Reach:
    """How far to look ahead. A prefix costs what it computes, unless the weights come from memory:
    then about twice the beam is scored in the time of one."""
    return Reach(1, 2) if native_session(session).weights.stack.nbytes > _CACHE else NOTHING


class NativeBeams:
    """What ``TorchBeams`` is, by a handle (``src/beam.h`` in the engine's sources). ``tables``: of
    the decoder's embeddings."""

    def __init__(
        self,
        tables: EmbeddingTables,
        batch: OpenBatch,
        rules: BeamRules,
        start: int,
        prefix: Tensor | None,
        lookaheads: Sequence[Lookahead],
    ) -> None:
        layers, policy, limits = native_session(batch.session), batch.parts.policy, batch.limits
        self._library = layers.weights.stack.library
        # The library reads these until the end.
        self._kept = (layers.buffers, tables, layers.positions, prefix, limits)
        setup = BeamSetup(
            tables.of(layers.positions),
            Rules(
                policy.pad, policy.unk, policy.eos, policy.min_len, 0,
                policy.unk_penalty, batch.session.temperature,
            ),
            rules.beam,
            start,
        )  # fmt: skip
        point_to_rows(setup.rules, prefix, limits)
        self.sentences = [BeamFacts() for _ in batch.finished]
        self._tokens = (ctypes.c_int64 * (limits.longest + 1))()  # that the library fills
        self._totals = (ctypes.c_float * (limits.longest + 2))()
        self._pointer = ctypes.c_void_p()
        self._library.call(
            "specdec_beams_new", layers.buffers.pointer, ctypes.byref(setup),
            ctypes.byref(self._pointer),
        )  # fmt: skip
        weakref.finalize(self, self._library.free, "specdec_beams_free", self._pointer)
        for row, one in enumerate(lookaheads):
            words = (ctypes.c_int64 * len(one.source))(*one.source)
            self.ask("look_ahead", row, len(words), words, one.reach.steps, one.reach.beams)

    def ask(self, what: str, *arguments: object) -> None:
        """Call an entry point of the library for beams."""
        self._library.call(f"specdec_beams_{what}", self._pointer, *arguments)

    def run(self, max_passes: int) -> None:
        self.ask("run", max_passes, ctypes.byref(ctypes.c_int64()))
        for row, facts in enumerate(self.sentences):
            self.ask("facts", row, ctypes.byref(facts))
            if facts.failure:
                raise NoTokenError(facts.failure == 1, facts.depth, row)

    def prefixes(self, row: int, drafted: bool) -> list[Prefix]:
        listed, tokens, facts = [], self._tokens, PrefixFacts()
        count = self.sentences[row].draft if drafted else self.sentences[row].live
        for number in range(count):
            self.ask("prefix", row, drafted, number, len(tokens), tokens, ctypes.byref(facts))
            listed.append((tokens[: facts.length], bool(facts.scored), bool(facts.kept)))
        return listed

    def ended(self, row: int) -> list[Ended]:
        hypotheses, tokens, totals, length = [], self._tokens, self._totals, ctypes.c_int64()
        for number in range(self.sentences[row].ended):
            self.ask("ended", row, number, len(tokens), tokens, totals, ctypes.byref(length))
            hypotheses.append(Ended(tokens[: length.value], totals[: length.value + 1]))
        return hypotheses
