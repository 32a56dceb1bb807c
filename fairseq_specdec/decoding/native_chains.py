"""Greedy decoding of a batch in the native library: many iterations in one call.

What ``Batch.step`` does in some thirty operators of a few microseconds each (embed, score,
constrain, accept, emit) is one call here, with the drafts of a native drafter too. Ties of the best
tokens, and all that has no native form, are left to that step, whose answers it must equal. The
rules are those of Ge et al. 2022: exact (equations 5 and 7), or top-beta and tau (equations 8 and
9).
"""

from __future__ import annotations

import ctypes
import logging
import time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_specdec.acceptance import AcceptanceRule
from fairseq_specdec.engine.backend import tell_once
from fairseq_specdec.engine.native.decoder import EmbeddingTables, NativeSession, hypotheses_of
from fairseq_specdec.engine.native.structures import (
    Drafting,
    Drafts,
    Rules,
    StepOutputs,
    VerifyCall,
)
from fairseq_specdec.engine.state import Draft, pointer
from fairseq_specdec.engine.transformer import Ensemble, Verifier

from .iteration import Iteration
from .policy import DecodingConstraints, LengthLimits

# Iterations of one call that drafts: then the plan is made anew.
_MOST_WITH_DRAFTS = 16


class NativeForm(NamedTuple):
    """The library's description of a generator; threads share it."""

    tables: EmbeddingTables
    rules: Rules


def native_form(
    verifier: Verifier, policy: DecodingConstraints, rule: AcceptanceRule | None
) -> NativeForm | None:
    """For ``NativeChains``, or without a rule for ``NativeBeams``. None where the library runs the
    layers at most; the reason is logged, once, unless nothing of the verifier is native."""
    if not verifier.is_native:
        return None
    tables, judges = verifier.native_form(), () if rule is None else rule.native_form()
    if tables is None:
        reason = "an ensemble" if len(verifier.weights) > 1 else "its embeddings are not plain"
    elif policy.reads_hypotheses:
        reason = "--no-repeat-ngram-size"
    elif judges is None:
        reason = f"{type(rule).__name__} is not in the native library"
    else:
        rules = Rules(
            policy.pad, policy.unk, policy.eos, policy.min_len, 0, policy.unk_penalty,
            verifier.temperature, *judges,
        )  # fmt: skip
        return NativeForm(tables, rules)
    tell_once(f"several calls of the native engine a step, which is slower: {reason}", logging.INFO)
    return None


def point_to_rows(rules: Rules, prefix: Tensor | None, limits: LengthLimits) -> None:
    """Point to what rows have of their own, which the caller keeps. ``prefix``: long [B, P], what
    the outputs must begin with; or None."""
    rules.prefix = pointer(prefix, torch.long)
    rules.prefix_width = 0 if prefix is None else prefix.size(1)
    rules.max_len = limits.longest
    rules.limits = pointer(limits.rows, torch.long)


def native_session(session: Ensemble) -> NativeSession:
    """The one session of a verifier with a native form."""
    (only,) = session.sessions
    assert isinstance(only, NativeSession)
    return only


class NativeChains:
    """Decodes a ``greedy.Batch`` several iterations at a time, as far as it can. ``batch``: whose
    rows it reads and writes; its drafts are asked for where they have no native form."""

    def __init__(self, form: NativeForm, batch: Any) -> None:
        self.batch = batch
        self.session = session = native_session(batch.session)
        self.call = VerifyCall(embedding=form.tables.of(session.positions), rules=form.rules)
        self.call.read = session.weights.read
        self.call.window = batch.drafts.list_tokens(session)
        self.undecided: Draft | None = None

    def run(self, max_iterations: int) -> tuple[list[Iteration], Draft | None]:
        """Do iterations, until a row ends or ``Batch.step`` must decide.

        Returns:
            (the iterations, whose tokens are in the rows; where there are none, the draft that
            ``step`` is to verify).
        """
        batch, draft = self.batch, self.undecided
        if draft is not None:
            self.undecided = None
            return [], draft
        draft, drafting, seconds = batch.take_forced(), None, 0.0
        if draft is None:
            plan = batch.plan()
            max_iterations = min(max_iterations, plan.iterations or max_iterations)
            if plan.size != 0:
                drafting = batch.drafts.native_form(batch.rows, plan.size, plan.costs)
            if drafting is None:
                started = time.perf_counter()
                draft = batch.propose(plan)
                seconds = time.perf_counter() - started
                if plan.size != 0 and not batch.drafts.never_drafts:
                    max_iterations = 1
            else:
                max_iterations = min(max_iterations, _MOST_WITH_DRAFTS)
        else:
            max_iterations = 1
        with batch.stats.stopwatch("verifier"):
            if draft is not None:
                rounds = self._verify(draft, max_iterations, seconds)
            else:
                assert drafting is not None
                rounds = self._speculate(drafting, max_iterations)
        if rounds:
            each = ([size * done.times for size in done.sizes] for done in rounds)
            added = [sum(sizes) for sizes in zip(*each)]
            batch.rows.grow(torch.tensor(added), added)
            return rounds, None
        draft, self.undecided = self.undecided, None
        return rounds, draft

    def _verify(self, draft: Draft, max_iterations: int, seconds: float) -> list[Iteration]:
        """Verify a draft, which took so many ``seconds``; without one, do several iterations.
        ``undecided`` is the draft where there are no iterations."""
        self.batch.rows.reserve(draft.width + 1)
        tokens, sizes = draft.tokens.contiguous(), draft.sizes.contiguous()
        count, width = tokens.shape
        drafts = Drafts(count, width, pointer(tokens, torch.long), pointer(sizes, torch.long))
        answer, done = self._call(drafts, None, max_iterations), self.call.done
        if done == 0:
            self.undecided = draft
            return []
        # Without drafts, all but the last add a token to each row, and none ends.
        alike, rounds = 0 if width or answer.choices else done - 1, []
        if alike > 0:
            zeros, least = [0] * count, min(answer.seconds[1 : 2 * alike : 2])
            ones, spent = [1] * count, (0.0, 0.0, least)
            rounds.append(Iteration(ones, zeros, zeros, zeros, zeros, 0, spent, times=alike))
        answer.drafts = tokens.view(-1).tolist() * done
        answer.seconds[2 * alike] = seconds
        rounds += [answer.iteration(i) for i in range(alike, done)]
        return [one._replace(passes=draft.passes, forced=draft.forced) for one in rounds]

    def _speculate(self, drafting: Drafting, max_iterations: int) -> list[Iteration]:
        """Draft and verify by turns. ``undecided`` is then the draft that ``step`` must verify
        next, if there is one."""
        count, width = len(self.batch.rows.lengths_cpu), drafting.block
        answer = self._call(Drafts(count, width), drafting, max_iterations)
        done = self.call.done
        rounds = [answer.iteration(i) for i in range(done)]
        if done < max_iterations and not (rounds and any(rounds[-1].done)):
            tokens, sizes = answer.draft(done)
            self.undecided = Draft(torch.tensor(tokens).view(count, width), torch.tensor(sizes))
        spent, timer = sum(one.seconds[1] for one in rounds), self.batch.stats.stopwatch
        timer.add("drafter", spent)
        timer.add("verifier", -spent)  # it times the call
        return rounds

    def _call(self, drafts: Drafts, drafting: Drafting | None, max_iterations: int) -> _Answer:
        """One call of the library; ``call.done`` iterations were done."""
        batch, call, session = self.batch, self.call, self.session
        answer = _Answer(
            drafts.rows, drafts.width, max_iterations, drafting is not None,
            batch.parts.options.keep_trace,
        )  # fmt: skip
        states = session.states_for(batch.rows.tokens.size(1))
        call.read_count = 0 if states is None else len(session.weights.read_layers)
        call.hypotheses = hypotheses_of(batch.rows)
        point_to_rows(call.rules, batch.prefix, batch.limits)
        call.drafts, call.max_iterations = drafts, max_iterations
        call.drafting = None if drafting is None else ctypes.pointer(drafting)
        call.outputs = StepOutputs(
            *answer.addresses(), pointer(states), 0 if states is None else states.size(1)
        )
        stack = session.weights.stack
        stack.library.call("specdec_verify", session.buffers.pointer, ctypes.byref(call))
        batch.stats.windows += call.windows
        return answer


class _Answer:
    """Room for what the library writes, as in ``specdec::StepOutputs``, for R rows and drafts of W
    tokens."""

    def __init__(self, rows: int, width: int, iterations: int, drafts: bool, traced: bool) -> None:
        self.rows, self.width = rows, width
        entries = rows * iterations
        self.outcomes = (ctypes.c_int64 * (4 * entries))()
        self.drafts: Any = (ctypes.c_int64 * (entries * width))() if drafts else None
        self.choices = (ctypes.c_int64 * (entries * (width + 1)))() if traced else None
        self.seconds = (ctypes.c_double * (2 * iterations))()

    def addresses(self) -> list[int | None]:
        """In the order of ``StepOutputs``."""
        arrays = (self.outcomes, self.drafts, self.choices, self.seconds)
        return [None if array is None else ctypes.addressof(array) for array in arrays]

    def draft(self, i: int) -> tuple[list[int], list[int]]:
        """(tokens [R W], sizes [R]) that iteration ``i`` was to verify."""
        first, end = self.rows * i, self.rows * (i + 1)
        tokens = self.drafts[first * self.width : end * self.width]
        return tokens, self.outcomes[4 * first + 3 : 4 * end : 4]

    def iteration(self, i: int) -> Iteration:
        """Iteration ``i``, which was done."""
        rows, width, end = self.rows, self.width, 4 * self.rows * (i + 1)
        columns = [self.outcomes[4 * rows * i + column : end : 4] for column in range(4)]
        sizes, ended, accepted, proposed = columns
        drafting, verifying = self.seconds[2 * i : 2 * i + 2]
        seconds = (drafting + verifying, drafting, verifying)
        done = Iteration(sizes, ended, accepted, [0] * rows, proposed, seconds=seconds)
        if self.choices is None:
            return done
        tokens, _ = self.draft(i)
        places = range(rows)
        drafts = [tokens[width * row : width * row + proposed[row]] for row in places]
        first = [(width + 1) * (rows * i + row) for row in places]
        choices = [self.choices[at : at + size] for at, size in zip(first, sizes)]
        emitted = [
            draft[:count] + best[count:] for draft, best, count in zip(drafts, choices, accepted)
        ]
        return done._replace(drafts=drafts, choices=choices, emitted=emitted)
