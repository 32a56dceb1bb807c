"""Beam search over one batch."""

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from fairseq_specdec.engine.transfer import to_device

from ..batch import OpenBatch
from ..failures import refuse_sentence
from ..iteration import Iteration
from ..native_chains import native_tables
from ..results import SentenceTrace, hypothesis
from .beams import Beams, EndedHypothesis, Progress
from .lookahead import NOTHING, Lookahead, reach_of_budget, reach_with_torch
from .native import NativeBeams, reach_natively
from .observed import observed
from .replay import BeamRules, NoTokenError
from .torch_beams import TorchBeams


class BeamBatch(OpenBatch):
    """The sentences of one batch. Those that are done leave it. ``close`` ends it."""

    widest = 64  # slots beside those of one hypothesis

    def begin(self, src_tokens: Tensor, start: int, prefix: Tensor | None) -> None:
        with self.stats.stopwatch("drafter"):
            self.beams = self._search(start, prefix, src_tokens)
        self._live = list(range(len(src_tokens)))
        self._known = [Progress()] * len(src_tokens)  # of those
        self._agreed = [0] * len(src_tokens)  # tokens of each sentence that a trace has

    def _search(self, start: int, prefix: Tensor | None, like: Tensor) -> Beams:
        parts, policy = self.parts, self.parts.policy
        rewarded = max(0.0, -policy.unk_penalty)
        rules = BeamRules(parts.options.beam, policy.eos, self.max_len, rewarded)
        tables = native_tables(parts.verifier, policy)
        looking = self._lookaheads(tables is not None, like)
        if tables is not None:
            return NativeBeams(
                self.session, tables, policy, rules, start, prefix, self.limits, looking
            )
        return TorchBeams(self.session, policy, rules, start, prefix, self.limits, like, looking)

    def _lookaheads(self, native: bool, like: Tensor) -> list[Lookahead]:
        drafts, options, rows = self.drafts, self.parts.options, like.size(0)
        if drafts.never_drafts:
            return []
        if options.look_ahead is not None:
            reach = reach_of_budget(options.look_ahead, rows, options.beam)
        elif native:
            reach = reach_natively(self.session)
        else:
            reach = reach_with_torch(rows, like.is_cuda)
        if reach == NOTHING:
            return []
        return [Lookahead(drafts.likely_copied(row), reach) for row in range(rows)]

    def iterate(self, max_iterations: int = 1) -> None:
        """One pass of the verifier for every live sentence, and the steps of the search that follow
        from it; one host-device synchronisation. ``max_iterations``: where nothing is drafted or
        traced, do up to so many passes. Raises ValueError: no token can follow a sentence."""
        began, rows = time.perf_counter(), self._live
        with self.stats.stopwatch("verifier"):
            try:
                after = self.beams.run(rows, 1 if self.parts.options.keep_trace else max_iterations)
            except NoTokenError as error:
                models = self.parts.verifier.models
                refuse_sentence(models, error.broken, error.step, error.row)
        seconds = time.perf_counter() - began
        self._count(after)
        ranked = {row: self._ranked(row) for row, now in zip(rows, after) if now.done}
        if self.parts.options.keep_trace:
            self.iterations.append(self._iteration(after, ranked, seconds))
        for row, now in zip(rows, after):
            if now.done:
                self._finish(row, ranked[row], now.passes)
        self._live = [row for row, now in zip(rows, after) if not now.done]
        self._known = [now for now in after if not now.done]

    def _count(self, after: Sequence[Progress]) -> None:
        """Add what was done for the live sentences to the statistics."""
        totals = zip(map(sum, zip(*self._known)), map(sum, zip(*after)))
        _, passes, steps, scored, drafted, used = [now - before for before, now in totals]
        self.stats.iterations += passes
        self.stats.emitted += steps
        self.stats.scored += scored
        self.stats.drafted += drafted
        self.stats.accepted += used

    def _iteration(
        self, after: Sequence[Progress], ranked: dict[int, list[EndedHypothesis]], seconds: float
    ) -> Iteration:
        """The pass of all live sentences, for a trace."""
        rows, emitted = self._live, []
        for row in rows:
            ended = row in ranked
            best = ranked[row][0].tokens if ended else self.beams.agreed(row)
            emitted.append(best[self._agreed[row] :] + [self.parts.policy.eos] * ended)
            self._agreed[row] = len(best)
        none = [0] * len(rows)
        return Iteration(
            list(map(len, emitted)),
            [now.done for now in after],
            none,
            none,
            none,
            seconds=(seconds, 0.0, seconds),
            drafts=[[]] * len(rows),
            choices=[[]] * len(rows),
            emitted=emitted,
            rows=rows,
            beam=[
                observed(self.beams, row, old, now)
                for row, old, now in zip(rows, self._known, after)
            ],
        )

    def _ranked(self, row: int) -> list[EndedHypothesis]:
        """The hypotheses of a sentence that is done, best first; equal ones as they ended."""
        options = self.parts.options

        def score(one: EndedHypothesis) -> float:
            length: float = len(one.totals) ** options.len_penalty
            return one.totals[-1] / length if options.normalize_scores else one.totals[-1]

        return sorted(self.beams.ended(row), key=score, reverse=True)

    def _finish(self, row: int, ranked: list[EndedHypothesis], passes: int) -> None:
        options = self.parts.options
        trace, hypotheses = self.trace(row), []
        with torch.inference_mode(False):  # callers may write to the tensors of a hypothesis
            for number, one in enumerate(ranked):
                totals = torch.tensor(one.totals)
                each = torch.cat([totals[:1], totals[1:] - totals[:-1]])
                tokens = [*one.tokens, self.parts.policy.eos]
                hypotheses.append(
                    hypothesis(
                        to_device(tokens, self.device),
                        to_device(each, self.device),
                        passes,
                        options.normalize_scores,
                        options.len_penalty,
                        trace if number == 0 else SentenceTrace(),
                    )
                )
        self.store(row, hypotheses)
