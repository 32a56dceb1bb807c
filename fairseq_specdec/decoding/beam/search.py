"""Beam search over one batch."""

import time
from os.path import commonprefix

import torch
from torch import Tensor

from fairseq_specdec.engine.state import to_device

from ..batch import OpenBatch
from ..failures import refuse_sentence
from ..iteration import Iteration
from ..native_chains import native_tables
from ..results import SentenceTrace, hypothesis
from .lookahead import NOTHING, Lookahead, reach_of_budget, reach_with_torch
from .native import NativeBeams, reach_natively
from .observed import BeamPass
from .replay import BeamRules, Ended, NoTokenError
from .torch_beams import TorchBeams


class BeamBatch(OpenBatch):
    """The sentences of one batch. Those that are done leave it. ``close`` ends it."""

    widest = 64  # slots beside those of one hypothesis

    def begin(self, src_tokens: Tensor, start: int, prefix: Tensor | None) -> None:
        options, policy = self.parts.options, self.parts.policy
        rules = BeamRules(options.beam, policy.eos, self.max_len, max(0.0, -policy.unk_penalty))
        tables = native_tables(self.parts.verifier, policy)
        self.beams: TorchBeams | NativeBeams
        with self.stats.stopwatch("drafter"):
            looking = self._lookaheads(tables is not None, src_tokens)
            if tables is None:
                self.beams = TorchBeams(self, rules, start, prefix, looking)
            else:
                self.beams = NativeBeams(tables, self, rules, start, prefix, looking)
        self._agreed = [0] * len(src_tokens)  # tokens of each sentence that a trace has

    def _lookaheads(self, native: bool, like: Tensor) -> list[Lookahead]:
        options, rows = self.parts.options, len(like)
        if self.drafts.never_drafts:
            return []
        if options.draft_budget is not None:
            reach = reach_of_budget(options.draft_budget, rows, options.beam)
        elif native:
            reach = reach_natively(self.session)
        else:
            reach = reach_with_torch(rows, like.is_cuda)
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
                self.beams.run(1 if traced else max_iterations)
            except NoTokenError as error:
                refuse_sentence(self.parts.verifier.models, *error.args)
        seconds = time.perf_counter() - began
        stats, totals = self.stats, map(sum, zip(*map(self._counts, rows)))
        stats.iterations, stats.emitted, stats.scored, stats.drafted, stats.accepted = totals
        ranked = {row: self._ranked(row) for row in live if self.beams.sentences[row].done}
        if traced:
            self.iterations.append(self._iteration(before, ranked, seconds))
        for row, hypotheses in ranked.items():
            self._finish(row, hypotheses)

    def _counts(self, row: int) -> list[int]:
        """What was done for a sentence so far: passes, and what ``BeamPass`` counts."""
        one = self.beams.sentences[row]
        return [one.passes, one.steps, one.scored, one.drafted, one.used]

    def _iteration(
        self, before: dict[int, list[int]], ranked: dict[int, list[Ended]], seconds: float
    ) -> Iteration:
        """The pass of all live sentences, for a trace. ``before``: their counts. ``ranked``: those
        that it finished."""
        rows, emitted, beam = list(before), [], []
        for row, old in before.items():
            live = [] if row in ranked else self.beams.prefixes(row, False)
            ended = [one.tokens for one in self.beams.ended(row)]
            counts = [now - then for now, then in zip(self._counts(row), old)]
            beam.append(BeamPass.of(counts[1:], live, self.beams.prefixes(row, True), ended))
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

        return sorted(self.beams.ended(row), key=score, reverse=True)

    def _finish(self, row: int, ranked: list[Ended]) -> None:
        passes, trace = self.beams.sentences[row].passes, self.trace(row)
        with torch.inference_mode(False):  # callers may write to the tensors of a hypothesis
            hypotheses = [
                hypothesis(
                    to_device([*one.tokens, self.parts.policy.eos], self.device),
                    to_device(torch.tensor([0.0, *one.totals]).diff(), self.device),
                    passes,
                    self.parts.options,
                    SentenceTrace() if number else trace,
                )
                for number, one in enumerate(ranked)
            ]
        self.store(row, hypotheses)
