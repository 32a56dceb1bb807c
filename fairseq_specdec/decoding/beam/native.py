"""Beam search in the native library: many passes in one call."""

import ctypes

from fairseq_specdec.engine.native.structures import BeamFacts, BeamSetup

from ..native_chains import native_session, point_to_rows
from .replay import Hypothesis, NoTokenError
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
        steps, beams = (0, 0) if self.drafts.never_drafts else self.reach()
        for row in range(len(self.finished) if steps else 0):
            words = self.drafts.likely_copied(row)
            source = (ctypes.c_int64 * len(words))(*words)
            self.ask("look_ahead", row, len(words), source, steps, beams)

    def reach(self) -> tuple[int, int]:
        """How far a drafter of copies looks ahead: steps of the search, and most prefixes to score
        in a pass, in beams, those included that the search waits for. A prefix costs what it
        computes, unless the weights come from memory: then about twice the beam is scored in the
        time of one."""
        return (1, 2) if native_session(self.session).weights.stack.nbytes > _CACHE else (0, 0)

    def ask(self, what: str, *arguments: object) -> None:
        """Call an entry point of the library for beams."""
        self._library.call(f"specdec_beams_{what}", self._pointer, *arguments)

    def run(self, max_passes: int) -> None:
        self.ask("run", max_passes, ctypes.byref(ctypes.c_int64()))
        for row, facts in enumerate(self.sentences):
            self.ask("facts", row, ctypes.byref(facts))
            if facts.failure:
                raise NoTokenError(facts.failure == 1, facts.depth, row)

    def hypotheses(self, row: int, ended: bool) -> list[Hypothesis]:
        found, tokens, totals, length = [], self._tokens, self._totals, ctypes.c_int64()
        to_fill = len(tokens), tokens, totals, ctypes.byref(length)
        for number in range(self.sentences[row].ended if ended else self.sentences[row].live):
            self.ask("hypothesis", row, ended, number, *to_fill)
            found.append(Hypothesis(tokens[: length.value], totals[: length.value + 1]))
        return found
