"""The loop over one batch: iterations, what they added, and the rows that end."""

import operator
from typing import List, Optional, Sequence

from torch import Tensor

from fairseq_specdec.engine.hypotheses import Hypotheses
from fairseq_specdec.engine.transfer import to_device

from .batch import OpenBatch
from .failures import refuse_sentence
from .general_step import GeneralStep
from .iteration import Iteration
from .native_chains import NativeChains


class Batch(OpenBatch):
    """The live rows of one batch. Rows that reach </s> leave it. ``close`` ends it.

    Attributes:
        hypotheses: of the live rows.
    """

    widest = 32  # the cache grows where a draft is longer

    def begin(self, src_tokens: Tensor, start: int, prefix: Optional[Tensor]) -> None:
        parts, rows = self.parts, len(src_tokens)
        self.hypotheses = Hypotheses(rows, self.max_len + 3, start, parts.policy.pad, src_tokens)
        self.general = GeneralStep(
            parts, self.session, self.drafts, self.budget, self.hypotheses, self.limits, prefix,
            self.stats.stopwatch,
        )  # fmt: skip
        self.native: Optional[NativeChains] = None
        if parts.native is not None:
            self.native = NativeChains(parts.native, self.general)
        self.origin = list(range(rows))
        self.rounds = 0

    def iterate(self, max_iterations: int = 1) -> None:
        """One iteration for every live row, or several; then what they added is booked.
        ``max_iterations``: the native library may do up to so many iterations, until a row ends."""
        rounds: List[Iteration] = []
        draft = None
        if self.native is not None:
            max_iterations = min(max_iterations, self.max_len + 1 - self.hypotheses.longest)
            rounds, draft = self.native.run(max_iterations)
        for done in rounds or [self.general.step(draft)]:
            self._book(done)
        self._commit(done.done)

    def close(self) -> None:
        """Keep what was learnt of drafts, return the caches, and stop the clock."""
        self.budget.close()
        self.stats.left_early, self.stats.layers_run = (
            self.session.left_early, self.session.layers_run,
        )  # fmt: skip
        if self.parts.verifying is not None and self.stats.drafted and self.stats.scored:
            self.stats.expect(self.parts.verifying, self.rounds)
        super().close()

    def _book(self, done: Iteration) -> None:
        """Take note of an iteration that was done."""
        if any(done.broken):
            self._refuse(done)
        if self.parts.options.keep_trace:
            self.iterations.append(done._replace(rows=self.origin))
        self.rounds += done.times
        lengths = self.hypotheses.lengths_cpu
        self.hypotheses.lengths_cpu = list(map(operator.add, lengths, done.added))
        self.stats.count(done)
        if not done.forced:
            self.budget.learn(done)

    def _commit(self, done: Sequence[int]) -> None:
        """Roll back what was rejected in the last iteration, and let rows leave that are done."""
        hypotheses, keep = self.hypotheses, []
        for row, ended in enumerate(done):
            if ended:
                self.end(hypotheses, row, self.origin[row], self.rounds)
            else:
                keep.append(row)
        if not keep:
            hypotheses.lengths_cpu = []
            return
        self.session.commit(hypotheses.lengths, hypotheses.lengths_cpu)
        if len(keep) < len(done):
            self.general.select(to_device(keep, self.device), keep)
            self.origin = [self.origin[row] for row in keep]

    def _refuse(self, done: Iteration) -> None:
        """Raise for the first row that was given a token without a log-probability."""
        row = list(map(bool, done.broken)).index(True)
        start = self.hypotheses.lengths_cpu[row]
        scores = self.hypotheses.scores[row, start : start + done.sizes[row]].tolist()
        at = next(i for i, score in enumerate(scores) if not score > float("-inf"))
        models, broken = self.parts.verifier.models, scores[at] != scores[at]
        refuse_sentence(models, broken, start + at, self.origin[row])
