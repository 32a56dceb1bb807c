"""The chains of a batch in the native library: many iterations in one call.

What the general step does in some thirty operators of a few microseconds each (embed, score,
constrain, accept, emit) is one call here, with the drafts of a native drafter too. Ties of the best
tokens, and all that has no native form, are left to the general step, whose answers it must equal.
The rules are those of Ge et al. 2022: exact (equations 5 and 7), or top-beta and tau (equations 8
and 9), the latter within a regret budget or not.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any, NamedTuple

import torch

from fairseq_specdec.drafting.base import NativeDrafts
from fairseq_specdec.drafting.native_loop import LoopDrafts
from fairseq_specdec.drafting.plan import Plan
from fairseq_specdec.engine.native.pointers import pointer
from fairseq_specdec.engine.native.structures import Drafts, StepOutputs, VerifyCall
from fairseq_specdec.engine.native.structures import Hypotheses as HypothesesView
from fairseq_specdec.engine.state import Draft

from .draft_budget import FORGETS
from .iteration import Iteration
from .native_form import NativeForm, native_session, point_to_rows

# Iterations of one call that drafts.
_MOST_WITH_DRAFTS = 64


class _Answer(NamedTuple):
    """Room for what the library writes, as in ``specdec::StepOutputs``."""

    rows: int
    width: int
    outcomes: Any
    choices: Any
    seconds: Any


class NativeChains:
    """Decodes the chains of one batch several iterations at a time, as far as it can. ``general``:
    the ``greedy.Batch``; its drafts are asked for where they have no native form."""

    def __init__(self, form: NativeForm, general: Any) -> None:
        self.general = general
        self.session = session = native_session(general.session)
        self.call = VerifyCall(embedding=form.tables.of(session.positions), rules=form.rules)
        self.call.read = session.weights.read
        self.undecided: Draft | None = None

    def run(self, max_iterations: int) -> tuple[list[Iteration], Draft | None]:
        """Do iterations, until a row ends or the general step must decide.

        Returns:
            (the iterations, whose tokens are in the hypotheses; where there are none, the draft
            that the general step is to verify, or None for it to draft too).
        """
        draft, self.undecided = self.undecided, None
        if draft is not None:
            return [], draft
        general = self.general
        draft = general.take_forced()
        if draft is not None:
            rounds = [done._replace(forced=True) for done in self.verify(draft, 1)]
            return rounds, None if rounds else draft
        plan = general.plan()
        max_iterations = min(max_iterations, plan.iterations or max_iterations)
        drafts = general.drafts.native_form() if plan.size != 0 else None
        if drafts is not None:
            rounds = self.speculate(drafts, max_iterations, plan)
            if rounds:
                return rounds, None
            if self.undecided is not None:
                return self.run(max_iterations)
        started = time.perf_counter()
        draft = general.propose(plan)
        drafting = time.perf_counter() - started
        if plan.size != 0 and not general.drafts.never_drafts:
            max_iterations = 1
        rounds = self.verify(draft, max_iterations, drafting)
        return rounds, None if rounds else draft

    def verify(self, draft: Draft, max_iterations: int, drafting: float = 0.0) -> list[Iteration]:
        """Score a chain, accept, and add what follows to the hypotheses.

        Args:
            draft: N draft tokens per row.
            max_iterations: without drafts, do so many iterations, until a row ends.
            drafting: seconds that the draft took.

        Returns:
            The iterations done; none where the general step must decide.
        """
        rows, width = draft.tokens.shape
        self.general.rows.reserve(width + max_iterations)
        tokens = draft.tokens if draft.tokens.stride(1) == 1 else draft.tokens.contiguous()
        sizes = draft.sizes.contiguous()
        drafts = Drafts(
            rows, width, pointer(tokens, torch.long, rows_apart=True), tokens.stride(0),
            pointer(sizes, torch.long),
        )  # fmt: skip
        with self.general.stats.stopwatch("verifier"):
            answer = self._call(drafts, max_iterations)
            pairs = zip(tokens.tolist(), sizes.tolist())
            proposed = [tokens[:size] for tokens, size in pairs]
            done, rounds = self.call.done, []
            alike = 0 if width or len(answer.choices) else done - 1
            if alike > 0:  # a token each, and no row ended
                zeros = [0] * rows
                seconds = (0.0, 0.0, min(answer.seconds[:alike]))
                rounds.append(
                    Iteration([1] * rows, zeros, zeros, zeros, zeros, 0, seconds, times=alike)
                )
            rounds += [
                self._iteration(answer, i, proposed, 0.0 if i else drafting, draft.passes)
                for i in range(max(alike, 0), done)
            ]
            self._take_in(rounds)
        return rounds

    def speculate(self, drafts: NativeDrafts, max_iterations: int, plan: Plan) -> list[Iteration]:
        """Draft and verify by turns in one call, until a row ends or the plan no longer holds.

        Args:
            drafts: of the batch's drafter.
            max_iterations: iterations, 1 or more.
            plan: what an iteration drafts.

        Returns:
            The iterations done. ``undecided`` is then a draft that the general step must verify
            next, if there is one.
        """
        rows, acceptance = self.general.rows, self.general.budget.acceptance
        started = time.perf_counter()
        max_iterations = min(max_iterations, _MOST_WITH_DRAFTS)
        rows.reserve(1)
        loop = drafts.begin_loop(rows, max_iterations, plan, (*acceptance, FORGETS))
        if loop is None:
            return []
        empty = Drafts(len(rows.lengths_cpu), loop.loop.block)
        answer = self._call(empty, max_iterations, drafts, loop)
        drafts.end_loop(loop)
        done = self.call.done
        self.undecided = loop.pending_draft(done)
        rounds = [self._iteration(answer, i, loop.of(i), loop.seconds[i]) for i in range(done)]
        drafting = sum(one.seconds[1] for one in rounds)
        self.general.stats.stopwatch.add("drafter", drafting)
        self.general.stats.stopwatch.add("verifier", time.perf_counter() - started - drafting)
        self._take_in(rounds)
        return rounds

    def _call(
        self,
        drafts: Drafts,
        max_iterations: int,
        drafter: NativeDrafts | None = None,
        loop: LoopDrafts | None = None,
    ) -> _Answer:
        """One call of the library."""
        rows, width, call = drafts.rows, drafts.width, self.call
        traced = self.general.parts.options.keep_trace
        answer = _Answer(
            rows,
            width,
            (ctypes.c_int64 * (3 * rows * max_iterations))(),
            (ctypes.c_int64 * (rows * max_iterations * (width + 1) if traced else 0))(),
            (ctypes.c_double * max_iterations)(),
        )
        self._point_to_hypotheses(call.hypotheses)
        point_to_rows(call.rules, self.general.prefix, self.general.limits)
        states = self.session.states_for(self.general.rows.tokens.size(1))
        call.read_count = 0 if states is None else len(self.session.weights.read_layers)
        call.drafts = drafts
        call.outputs = StepOutputs(
            ctypes.addressof(answer.outcomes),
            ctypes.addressof(answer.choices) if traced else None,
            ctypes.addressof(answer.seconds),
            pointer(states),
            0 if states is None else states.size(1),
        )
        call.max_iterations = max_iterations
        call.loop = None
        if loop is not None and drafter is not None:
            call.drafter, call.draft_session = drafter.pointers
            call.loop = ctypes.pointer(loop.loop)
        stack = self.session.weights.stack
        stack.library.call("specdec_verify", self.session.buffers.pointer, ctypes.byref(call))
        return answer

    def _point_to_hypotheses(self, view: HypothesesView) -> None:
        rows = self.general.rows
        tokens, scores = rows.tokens, rows.scores
        view.tokens, view.token_stride = pointer(tokens, torch.long), tokens.stride(0)
        view.scores, view.score_stride = pointer(scores), scores.stride(0)
        view.columns = tokens.size(1)
        view.lengths = pointer(rows.lengths, torch.long)
        view.spent = pointer(self.general.rule.spent, torch.float64)

    def _iteration(
        self, answer: _Answer, i: int, drafts: list[list[int]], drafting: float, passes: int = 0
    ) -> Iteration:
        """Iteration ``i``."""
        rows, width = answer.rows, answer.width + 1
        first, end = 3 * rows * i, 3 * rows * (i + 1)
        sizes, ended = answer.outcomes[first:end:3], answer.outcomes[first + 1 : end : 3]
        accepted = answer.outcomes[first + 2 : end : 3]
        verifying = answer.seconds[i]
        seconds = (drafting + verifying, drafting, verifying)
        proposed = list(map(len, drafts))
        done = Iteration(sizes, ended, accepted, [0] * rows, proposed, passes, seconds)
        if len(answer.choices) == 0:
            return done
        starts = range(rows * width * i, rows * width * (i + 1), width)
        choices = [answer.choices[at : at + size] for at, size in zip(starts, sizes)]
        emitted = [
            draft[:count] + best[count:] for draft, best, count in zip(drafts, choices, accepted)
        ]
        return done._replace(drafts=drafts, choices=choices, emitted=emitted)

    def _take_in(self, rounds: list[Iteration]) -> None:
        """Count what a call added to the rows."""
        if rounds:
            added = [sum(sizes) for sizes in zip(*(done.added for done in rounds))]
            self.general.rows.grow(torch.tensor(added), added)
