"""Beam search in the native library: many passes in one call."""

import ctypes

from fairseq_specdec.engine.native.structures import BeamFacts, BeamSetup, PrefixFacts

from ..native_chains import native_session, point_to_rows
from .lookahead import NOTHING, Reach
from .observed import Prefix
from .replay import Ended, NoTokenError
from .search import BeamBatch

# Weights that the last-level cache holds, about.
_CACHE = 32 << 20


class NativeBeams(BeamBatch):
    """The search by a handle (``src/beam.h`` in the engine's sources)."""

    def open(self) -> None:
        layers, form, limits = native_session(self.session), self.parts.native, self.limits
        assert form is not None
        self._library = layers.weights.stack.library
        # The library reads these until the end.
        self._kept = (layers.buffers, form, layers.positions, self.prefix, limits)
        tables = form.tables.of(layers.positions)
        setup = BeamSetup(tables, form.rules, self.rules.beam, self.start)
        point_to_rows(setup.rules, self.prefix, limits)
        self.sentences = [BeamFacts() for _ in self.finished]
        self._tokens = (ctypes.c_int64 * (limits.longest + 1))()  # that the library fills
        self._totals = (ctypes.c_float * (limits.longest + 2))()
        buffers = layers.buffers.pointer
        self._pointer = self._library.make(self, "beams", buffers, ctypes.byref(setup))
        for row, one in enumerate(self.lookaheads):
            words = (ctypes.c_int64 * len(one.source))(*one.source)
            self.ask("look_ahead", row, len(words), words, one.reach.steps, one.reach.beams)

    def usual_reach(self, rows: int) -> Reach:
        """A prefix costs what it computes, unless the weights come from memory: then about twice
        the beam is scored in the time of one."""
        large = native_session(self.session).weights.stack.nbytes > _CACHE
        return Reach(1, 2) if large else NOTHING

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

    def ended_of(self, row: int) -> list[Ended]:
        hypotheses, tokens, totals, length = [], self._tokens, self._totals, ctypes.c_int64()
        for number in range(self.sentences[row].ended):
            self.ask("ended", row, number, len(tokens), tokens, totals, ctypes.byref(length))
            hypotheses.append(Ended(tokens[: length.value], totals[: length.value + 1]))
        return hypotheses
