"""The loop over one batch: iterations, what they added, and the rows that end."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch
from torch import Tensor

from fairseq_specdec.engine.hypotheses import Hypotheses
from fairseq_specdec.engine.transfer import to_device

from .batch import OpenBatch
from .chains import Chains, Round, RowOutcome, count
from .failures import refuse_sentence
from .general_step import GeneralStep
from .native_chains import NativeChains
from .parts import Parts
from .results import Iteration, hypothesis

# Widest block that the verifier's cache is prepared for; it grows where a draft is longer.
_WIDEST = 32


class Batch(OpenBatch):
    """The live rows of one batch. Rows that reach </s> leave it. ``close`` ends it.

    Attributes:
        hypotheses: of the live rows.

    Args:
        parts: what decodes.
        net_input: fairseq's ``sample["net_input"]``.
        prefix: long [B, P] forced first tokens, padded on the right; or None.
        bos_token: first decoder input instead of </s>.
    """

    def __init__(
        self,
        parts: Parts,
        net_input: Dict[str, Any],
        prefix: Optional[Tensor],
        bos_token: Optional[int],
    ) -> None:
        super().__init__(parts, net_input, _WIDEST)
        policy, src_tokens = parts.policy, net_input["src_tokens"]
        rows = len(src_tokens)
        start = policy.eos if bos_token is None else bos_token
        self.hypotheses = Hypotheses(rows, self.max_len + 3, start, policy.pad, src_tokens)
        self.general = GeneralStep(
            parts, self.session, self.drafts, self.hypotheses, self.max_len, prefix,
            self.stats.stopwatch,
        )  # fmt: skip
        self.native: Optional[Chains] = None
        if parts.native is not None and prefix is None:
            self.native = NativeChains(parts.native, self.general)
        self.origin = list(range(rows))
        self.rounds = [0] * rows

    @property
    def live(self) -> bool:
        """Whether a row is left."""
        return bool(self.hypotheses.lengths_cpu)

    def iterate(self, most: int = 1) -> None:
        """One iteration for every live row, or several; then what they added is booked.

        Args:
            most: the native library may do up to so many iterations, until a row ends.
        """
        rounds: List[Round] = []
        draft = None
        if self.native is not None:
            most = min(most, self.max_len + 1 - self.hypotheses.longest)
            rounds, draft = self.native.run(most)
        for done in rounds or [self.general.step(draft)]:
            self._book(done)
        self._commit(done.rows)

    def close(self) -> None:
        self.general.budget.close()
        super().close()

    def _book(self, done: Round) -> None:
        """Take note of an iteration that was done."""
        for row, outcome in enumerate(done.rows):
            if outcome.broken:
                self._refuse(row, outcome.size)
            if self.parts.options.keep_trace:
                self._trace(row, done)
            self.rounds[row] += 1
            self.hypotheses.lengths_cpu[row] += outcome.size
        count(self.stats, done.rows)
        self.general.budget.learn(done.rows)

    def _commit(self, outcomes: List[RowOutcome]) -> None:
        """Roll back what was rejected in the last iteration, and let finished rows leave."""
        hypotheses = self.hypotheses
        keep = [row for row, outcome in enumerate(outcomes) if not outcome.done]
        for row, outcome in enumerate(outcomes):
            if outcome.done:
                self._finish(row)
        if not keep:
            hypotheses.lengths_cpu = []
            return
        self.session.commit(hypotheses.lengths, list(hypotheses.lengths_cpu))
        if len(keep) < len(outcomes):
            self._select(keep)

    def _trace(self, row: int, done: Round) -> None:
        outcome, position = done.rows[row], self.hypotheses.lengths_cpu[row]
        emitted = self.hypotheses.tokens[row, position + 1 : position + 1 + outcome.size].tolist()
        self.traces[row].append(
            Iteration(
                list(outcome.draft), outcome.accepted, emitted, list(outcome.choices),
                position, done.passes, len(done.rows), done.seconds,
            )
        )  # fmt: skip

    def _refuse(self, row: int, size: int) -> None:
        """Raise for a token without a log-probability among the last ``size`` of a row."""
        start = self.hypotheses.lengths_cpu[row]
        scores = self.hypotheses.scores[row, start : start + size].tolist()
        at = next(i for i, score in enumerate(scores) if not score > float("-inf"))
        models, broken = self.parts.verifier.models, scores[at] != scores[at]
        refuse_sentence(models, broken, start + at, self.origin[row])

    def _finish(self, row: int) -> None:
        """Store the hypothesis of a row that has ended."""
        length = self.hypotheses.lengths_cpu[row]
        options = self.parts.options
        with torch.inference_mode(False):  # callers may write to the tensors of a hypothesis
            found = hypothesis(
                self.hypotheses.tokens[row, 1 : length + 1].clone(),
                self.hypotheses.scores[row, :length].clone(),
                self.rounds[row],
                options.normalize_scores,
                options.len_penalty,
                self.traces[row],
            )
        self.finished[self.origin[row]] = [found]
        self.stats.sentences += 1

    def _select(self, keep: List[int]) -> None:
        """Keep only these rows."""
        self.general.select(to_device(keep, self.device), keep)
        for name in ("origin", "rounds", "traces"):
            values = getattr(self, name)
            setattr(self, name, [values[row] for row in keep])
