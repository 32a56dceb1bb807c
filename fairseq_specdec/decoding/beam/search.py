"""Beam search over one batch."""

import time
from collections.abc import Sequence
from os.path import commonprefix
from typing import Any

import torch
from torch import Tensor

from fairseq_specdec.engine.state import to_device

from ..batch import OpenBatch, hypothesis
from ..iteration import UNTRACED, Iteration
from .replay import BeamRules, Hypothesis, NoTokenError


class BeamBatch(OpenBatch):
    """The sentences of one batch. Those that are done leave it. ``close`` ends it.

    Attributes:
        sentences: how far each row of the batch is (a ``replay.Sentence``, or what the library says
            of it).
        prefix: long [B, P] forced first tokens, padded on the right; or None.
    """

    widest = 64  # slots beside those of one hypothesis
    sentences: Sequence[Any]

    def begin(self, src_tokens: Tensor, start: int, prefix: Tensor | None) -> None:
        beam, policy = self.parts.options.beam, self.parts.policy
        self.rules = BeamRules(beam, policy.eos, self.max_len)
        self.start, self.prefix = start, prefix
        with self.stats.stopwatch("drafter"):
            self.open()
        self._agreed = [0] * len(src_tokens)  # tokens of each sentence that a trace has

    def open(self) -> None:
        """Begin the search."""
        raise NotImplementedError

    def run(self, max_passes: int) -> None:
        """Do passes of the verifier, at most so many, until every sentence is done. Raises
        NoTokenError: a sentence cannot go on."""
        raise NotImplementedError

    def hypotheses(self, row: int, ended: bool) -> list[Hypothesis]:
        """Those of a sentence that have ended, in the order in which they did, or the live ones."""
        raise NotImplementedError

    def iterate(self, max_iterations: int = 1) -> None:
        """One pass of the verifier for every live sentence, and the steps of the search that follow
        from it; one host-device synchronisation. ``max_iterations``: where nothing is drafted or
        traced, do up to so many passes. Raises ValueError: no token can follow a sentence."""
        traced, rows = self.parts.options.keep_trace, range(len(self.finished))
        live = [row for row in rows if self.finished[row] is None]
        began = time.perf_counter()
        with self.stats.stopwatch("verifier"):
            try:
                self.run(1 if traced else max_iterations)
            except NoTokenError as error:
                self.refuse(*error.args)
        seconds = time.perf_counter() - began
        stats, totals = self.stats, map(sum, zip(*map(self._counts, rows)))
        stats.iterations, stats.emitted, stats.scored, stats.drafted, stats.accepted = totals
        ranked = {row: self._ranked(row) for row in live if self.sentences[row].done}
        if traced:
            self.iterations.append(self._iteration(live, ranked, seconds))
        for row, hypotheses in ranked.items():
            self._finish(row, hypotheses)

    def _counts(self, row: int) -> list[int]:
        """What was done for a sentence so far: passes of the verifier, steps of the search, and
        prefixes: scored, for which nothing waited, and those of them that hypotheses came to."""
        one = self.sentences[row]
        return [one.passes, one.steps, one.scored, one.drafted, one.used]

    def _iteration(
        self, rows: list[int], ranked: dict[int, list[Hypothesis]], seconds: float
    ) -> Iteration:
        """The pass of all sentences that were live, for a trace. ``ranked``: those it finished."""
        emitted = []
        for row in rows:
            if row in ranked:
                agreed = [*ranked[row][0].tokens, self.parts.policy.eos]
            else:
                known = [*self.hypotheses(row, False), *self.hypotheses(row, True)]
                agreed = list(commonprefix([one.tokens for one in known]))
            emitted.append(agreed[self._agreed[row] :])
            self._agreed[row] = len(agreed)
        none = [0] * len(rows)
        return Iteration(
            list(map(len, emitted)),
            [row in ranked for row in rows],
            none,
            none,
            none,
            seconds=(seconds, 0.0, seconds),
            drafts=[[] for _ in rows],
            emitted=emitted,
            rows=rows,
        )

    def _ranked(self, row: int) -> list[Hypothesis]:
        """The hypotheses of a sentence that is done, best first; equal ones as they ended."""
        options = self.parts.options

        def score(one: Hypothesis) -> float:
            length: float = len(one.totals) ** options.len_penalty
            return one.totals[-1] / length if options.normalize_scores else one.totals[-1]

        return sorted(self.hypotheses(row, True), key=score, reverse=True)

    def _finish(self, row: int, ranked: list[Hypothesis]) -> None:
        passes, trace = self.sentences[row].passes, self.trace(row)
        hypotheses = [
            hypothesis(
                to_device([*one.tokens, self.parts.policy.eos], self.device),
                to_device(torch.tensor([0.0, *one.totals]).diff(), self.device),
                passes,
                self.parts.options,
                UNTRACED if number else trace,
            )
            for number, one in enumerate(ranked)
        ]
        self.store(row, hypotheses)
