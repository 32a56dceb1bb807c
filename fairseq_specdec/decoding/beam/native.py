"""Beam search in the native library: many passes in one call."""

import collections
import ctypes
import weakref
from collections.abc import Sequence

from torch import Tensor

from fairseq_specdec.engine.native.embedding import EmbeddingTables
from fairseq_specdec.engine.native.structures import BeamFacts, BeamSetup, PrefixFacts, Rules
from fairseq_specdec.engine.transformer import Ensemble

from ..native_chains import native_session, point_to_rows
from ..policy import DecodingConstraints, LengthLimits
from .beams import EndedHypothesis, Prefix, Progress
from .lookahead import NOTHING, Lookahead, Reach
from .replay import BeamRules, NoTokenError

# Weights that the last-level cache holds, about.
_CACHE = 32 << 20


def reach_natively(session: Ensemble) -> Reach:
    """How far to look ahead. A prefix costs what it computes, unless the weights come from memory:
    then about twice the beam is scored in the time of one."""
    return Reach(1, 2) if native_session(session).weights.stack.nbytes > _CACHE else NOTHING


class NativeBeams:
    """See ``Beams``: ``src/beam.h`` in the engine's sources. ``tables``: of the decoder's
    embeddings. ``prefix``: long [B, P] forced first tokens, padded on the right; or None."""

    def __init__(
        self,
        session: Ensemble,
        tables: EmbeddingTables,
        policy: DecodingConstraints,
        rules: BeamRules,
        start: int,
        prefix: Tensor | None,
        limits: LengthLimits,
        lookaheads: Sequence[Lookahead] = (),
    ) -> None:
        layers = native_session(session)
        self._library = layers.weights.stack.library
        # The library reads these until the end.
        self._kept = (layers.buffers, tables, layers.positions, prefix, limits)
        setup = BeamSetup(
            tables.of(layers.positions),
            Rules(
                policy.pad, policy.unk, policy.eos, policy.min_len, 0,
                policy.unk_penalty, session.temperature,
            ),
            rules.beam,
            start,
        )  # fmt: skip
        point_to_rows(setup.rules, prefix, limits)
        self._longest = limits.longest + 1
        self._facts: collections.defaultdict[int, BeamFacts] = collections.defaultdict(BeamFacts)
        self._pointer = ctypes.c_void_p()
        self._library.call(
            "specdec_beams_new", layers.buffers.pointer, ctypes.byref(setup),
            ctypes.byref(self._pointer),
        )  # fmt: skip
        weakref.finalize(self, self._library.free, "specdec_beams_free", self._pointer)
        for row, looking in enumerate(lookaheads):
            words = (ctypes.c_int64 * len(looking.source))(*looking.source)
            self._library.call(
                "specdec_beams_look_ahead", self._pointer, row, len(words), words,
                looking.reach.steps, looking.reach.beams,
            )  # fmt: skip

    def run(self, rows: Sequence[int], max_passes: int) -> list[Progress]:
        done = ctypes.c_int64()
        self._library.call("specdec_beams_run", self._pointer, max_passes, ctypes.byref(done))
        for row in rows:
            facts = self._facts[row]
            self._library.call("specdec_beams_facts", self._pointer, row, ctypes.byref(facts))
            if facts.failure:
                raise NoTokenError(facts.failure == 1, facts.depth, row)
        return [
            Progress(bool(now.done), now.passes, now.steps, now.scored, now.drafted, now.used)
            for now in map(self._facts.__getitem__, rows)
        ]

    def agreed(self, row: int) -> list[int]:
        tokens, length = (ctypes.c_int64 * self._facts[row].depth)(), ctypes.c_int64()
        self._library.call(
            "specdec_beams_agreed", self._pointer, row, len(tokens), tokens, ctypes.byref(length)
        )
        agreed: list[int] = tokens[: length.value]
        return agreed

    def live(self, row: int) -> list[Prefix]:
        return self._prefixes(row, False, self._facts[row].live)

    def draft(self, row: int) -> list[Prefix]:
        return self._prefixes(row, True, self._facts[row].draft)

    def _prefixes(self, row: int, draft: bool, count: int) -> list[Prefix]:
        prefixes, facts = [], PrefixFacts()
        tokens = (ctypes.c_int64 * self._longest)()
        for number in range(count):
            self._library.call(
                "specdec_beams_prefix", self._pointer, row, draft, number, len(tokens), tokens,
                ctypes.byref(facts),
            )  # fmt: skip
            prefix = tokens[: facts.length]
            prefixes.append(Prefix(prefix, bool(facts.scored), bool(facts.kept)))
        return prefixes

    def ended(self, row: int) -> list[EndedHypothesis]:
        hypotheses, length = [], ctypes.c_int64()
        tokens = (ctypes.c_int64 * self._longest)()
        totals = (ctypes.c_float * (self._longest + 1))()
        for number in range(self._facts[row].ended):
            self._library.call(
                "specdec_beams_ended", self._pointer, row, number, len(tokens), tokens, totals,
                ctypes.byref(length),
            )  # fmt: skip
            size = length.value
            hypotheses.append(EndedHypothesis(tokens[:size], totals[: size + 1]))
        return hypotheses
