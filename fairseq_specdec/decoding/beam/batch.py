"""Beam search over one batch."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional

import torch
from torch import Tensor

from fairseq_specdec.engine.transfer import to_device

from ..batch import OpenBatch
from ..failures import refuse_sentence
from ..native_form import native_tables
from ..parts import Parts
from ..results import Iteration, hypothesis
from .beams import Beams, EndedHypothesis, Progress
from .forecasts import Forecasts
from .lookahead import NOTHING, Lookahead, reach_of_budget, reach_with_torch
from .native import NativeBeams, reach_natively
from .observed import observed
from .replay import BeamRules, NoTokenError
from .replayed import ReplayedBeams

# Cache slots that are prepared beside those of one hypothesis.
_WIDEST = 64


class BeamBatch(OpenBatch):
    """The sentences of one batch. Those that are done leave it. ``close`` ends it.

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
        src_tokens = net_input["src_tokens"]
        with self.stats.stopwatch("drafter"):
            start = parts.policy.eos if bos_token is None else bos_token
            self.beams = self._search(start, prefix, src_tokens)
        self._live = list(range(len(src_tokens)))
        self._known = [Progress()] * len(src_tokens)

    def _search(self, start: int, prefix: Optional[Tensor], like: Tensor) -> Beams:
        parts, policy = self.parts, self.parts.policy
        rewarded = max(0.0, -policy.unk_penalty)
        rules = BeamRules(parts.options.beam, policy.eos, self.max_len, rewarded)
        tables = native_tables(parts.verifier, policy) if prefix is None else None
        looking = self._lookaheads(tables is not None, like.size(0))
        if tables is not None:
            return NativeBeams(self.session, tables, policy, rules, start, looking)
        forecasts = None
        if looking and self.drafts.forecasts:
            forecasts = Forecasts(self.drafts, start, parts.read_hidden_states, like)
        return ReplayedBeams(self.session, policy, rules, start, prefix, like, looking, forecasts)

    def _lookaheads(self, native: bool, rows: int) -> List[Lookahead]:
        drafts, options = self.drafts, self.parts.options
        if drafts.never_drafts:
            return []
        if options.look_ahead is not None:
            reach = reach_of_budget(options.look_ahead, rows, options.beam)
        elif native:
            reach = reach_natively(self.session)
        else:
            reach = reach_with_torch(rows, drafts.forecasts)
        if reach == NOTHING:
            return []
        return [Lookahead(drafts.likely_copied(row), reach) for row in range(rows)]

    @property
    def live(self) -> bool:
        """Whether a sentence is left."""
        return bool(self._live)

    def iterate(self, most: int = 1) -> None:
        """One pass of the verifier for every live sentence, and the steps of the search that follow
        from it; one host-device synchronisation.

        Args:
            most: where nothing is drafted or traced, do up to so many passes.

        Raises:
            ValueError: no token can follow a sentence.
        """
        began = time.perf_counter()
        with self.stats.stopwatch("verifier"):
            try:
                self.beams.run(self._live, 1 if self.parts.options.keep_trace else most)
            except NoTokenError as error:
                models = self.parts.verifier.models
                refuse_sentence(models, error.broken, error.step, error.row)
        seconds = time.perf_counter() - began
        rows, self._live = self._live, []
        for row in rows:
            self._book(row, len(rows), seconds)

    def _book(self, row: int, rows: int, seconds: float) -> None:
        """Take note of what was done for a sentence, and store its hypotheses if it is done."""
        before, now = self._known[row], self.beams.progress(row)
        self._known[row] = now
        self.stats.iterations += now.passes - before.passes
        self.stats.emitted += now.steps - before.steps
        self.stats.scored += now.scored - before.scored
        self.stats.drafted += now.drafted - before.drafted
        self.stats.accepted += now.used - before.used
        ranked = self._ranked(row) if now.done else []
        if self.parts.options.keep_trace:
            position = sum(len(part.emitted) for part in self.traces[row])
            best = ranked[0].tokens + [self.parts.policy.eos] if ranked else self.beams.agreed(row)
            emitted = best[position:]
            timing = (seconds, 0.0, seconds)
            done = observed(self.beams, row, before, now)
            self.traces[row].append(
                Iteration([], 0, emitted, emitted, position, 0, rows, timing, now.live, done)
            )
        if now.done:
            self._finish(row, ranked)
        else:
            self._live.append(row)

    def _ranked(self, row: int) -> List[EndedHypothesis]:
        """The hypotheses of a sentence that is done, best first; equal ones as they ended."""
        options = self.parts.options

        def score(one: EndedHypothesis) -> float:
            length: float = len(one.totals) ** options.len_penalty
            return one.totals[-1] / length if options.normalize_scores else one.totals[-1]

        return sorted(self.beams.ended(row), key=score, reverse=True)

    def _finish(self, row: int, ranked: List[EndedHypothesis]) -> None:
        options = self.parts.options
        found = []
        with torch.inference_mode(False):  # callers may write to the tensors of a hypothesis
            for number, one in enumerate(ranked):
                totals = torch.tensor(one.totals)
                each = torch.cat([totals[:1], totals[1:] - totals[:-1]])
                tokens = [*one.tokens, self.parts.policy.eos]
                found.append(
                    hypothesis(
                        to_device(tokens, self.device),
                        to_device(each, self.device),
                        self._known[row].passes,
                        options.normalize_scores,
                        options.len_penalty,
                        self.traces[row] if number == 0 else [],
                    )
                )
        self.finished[row] = found
        self.stats.sentences += 1
