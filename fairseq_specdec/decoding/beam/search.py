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
from .lookahead import NOTHING, Lookahead, Reach, reach_of_budget
from .observed import BeamPass, Prefix
from .replay import BeamRules, Ended, NoTokenError


class BeamBatch(OpenBatch):
    """The sentences of one batch. Those that are done leave it. ``close`` ends it.

    Attributes:
        sentences: how far each row of the batch is (a ``replay.Sentence``, or what the library says
            of it).
        prefix: long [B, P] forced first tokens, padded on the right; or None.
        lookaheads: of each row; none where nothing is drafted.
    """

    widest = 64  # slots beside those of one hypothesis
    sentences: Sequence[Any]

    def begin(self, src_tokens: Tensor, start: int, prefix: Tensor | None) -> None:
        beam, policy = self.parts.options.beam, self.parts.policy
        self.rules = BeamRules(beam, policy.eos, self.max_len, max(0.0, -policy.unk_penalty))
        self.start, self.prefix = start, prefix
        with self.stats.stopwatch("drafter"):
            self.lookaheads = self._lookaheads(len(src_tokens))
            self.open()
        self._agreed = [0] * len(src_tokens)  # tokens of each sentence that a trace has

    def open(self) -> None:
        """Begin the search."""
        raise NotImplementedError

    def usual_reach(self, rows: int) -> Reach:
        """How far to look ahead for so many sentences."""
        raise NotImplementedError

    def run(self, max_passes: int) -> None:
        """Do passes of the verifier, at most so many, until every sentence is done. Raises
        NoTokenError: a sentence cannot go on."""
        raise NotImplementedError

    def prefixes(self, row: int, drafted: bool) -> list[Prefix]:
        """The live hypotheses of a sentence, best first; or what its last pass scored though
        nothing waited for it, parents first."""
        raise NotImplementedError

    def ended_of(self, row: int) -> list[Ended]:
        """The hypotheses of a sentence that have ended, in the order in which they did."""
        raise NotImplementedError

    def _lookaheads(self, rows: int) -> list[Lookahead]:
        options = self.parts.options
        if self.drafts.never_drafts:
            return []
        if options.draft_budget is not None:
            reach = reach_of_budget(options.draft_budget, rows, options.beam)
        else:
            reach = self.usual_reach(rows)
        likely = map(self.drafts.likely_copied, range(rows if reach != NOTHING else 0))
        return [Lookahead(source, reach) for source in likely]

    def iterate(self, max_iterations: int = 1) -> None:
        """One pass of the verifier for every live sentence, and the steps of the search that follow
        from it; one host-device synchronisation. ``max_iterations``: where nothing is drafted or
        traced, do up to so many passes. Raises ValueError: no token can follow a sentence."""
        traced, rows = self.parts.options.keep_trace, range(len(self.finished))
        live = [row for row in rows if self.finished[row] is None]
        before = {row: self._counts(row) for row in live} if traced else {}
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
            self.iterations.append(self._iteration(before, ranked, seconds))
        for row, hypotheses in ranked.items():
            self._finish(row, hypotheses)

    def _counts(self, row: int) -> list[int]:
        """What was done for a sentence so far: passes, and what ``BeamPass`` counts."""
        one = self.sentences[row]
        return [one.passes, one.steps, one.scored, one.drafted, one.used]

    def _iteration(
        self, before: dict[int, list[int]], ranked: dict[int, list[Ended]], seconds: float
    ) -> Iteration:
        """The pass of all live sentences, for a trace. ``before``: their counts. ``ranked``: those
        that it finished."""
        rows, emitted, beam = list(before), [], []
        for row, old in before.items():
            live = [] if row in ranked else self.prefixes(row, False)
            ended = [one.tokens for one in self.ended_of(row)]
            counts = [now - then for now, then in zip(self._counts(row), old)]
            beam.append(BeamPass.of(counts[1:], live, self.prefixes(row, True), ended))
            if row in ranked:
                agreed = [*ranked[row][0].tokens, self.parts.policy.eos]
            else:
                agreed = list(commonprefix([tokens for tokens, _, _ in live] + ended))
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
            beam=beam,
        )

    def _ranked(self, row: int) -> list[Ended]:
        """The hypotheses of a sentence that is done, best first; equal ones as they ended."""
        options = self.parts.options

        def score(one: Ended) -> float:
            length: float = len(one.totals) ** options.len_penalty
            return one.totals[-1] / length if options.normalize_scores else one.totals[-1]

        return sorted(self.ended_of(row), key=score, reverse=True)

    def _finish(self, row: int, ranked: list[Ended]) -> None:
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
