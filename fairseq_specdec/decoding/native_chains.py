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
    """Decodes a ``greedy.Batch`` several iterations at a time, as far as it can.

    Args:
        batch: whose rows it reads and writes; its drafts are asked for where they have no native
            form.
        sources: long [B, S].
    """

    def __init__(self, form: NativeForm, batch: Any, sources: Tensor) -> None:
        self.batch = batch
        self.session = session = native_session(batch.session)
        self.call = VerifyCall(embedding=form.tables.of(session.positions), rules=form.rules)
        self.call.read = session.weights.read
        vocabulary = batch.parts.vocabulary
        self.call.window = 0 if vocabulary is None else vocabulary.open(sources, session)

    def run(self, max_iterations: int) -> tuple[list[Iteration], Draft | None]:
        """Do iterations, until a row ends or ``Batch.step`` must decide.

        Returns:
            (the iterations, whose tokens are in the rows; where there are none, the draft that
            ``step`` is to verify, or None where it drafts itself, as after a tie in the library).
        """
        batch, drafting, seconds = self.batch, None, 0.0
        draft, most = batch.take_forced(), 1
        if draft is None:
            plan = batch.plan()
            most = min(max_iterations, plan.iterations or max_iterations)
            if plan.size != 0:
                drafting = batch.drafts.native_form(batch.rows, plan.size, plan.costs)
            if drafting is not None:
                most = min(most, _MOST_WITH_DRAFTS)
            else:
                started = time.perf_counter()
                draft = batch.propose(plan)
                seconds = time.perf_counter() - started
                if plan.size != 0 and not batch.drafts.never_drafts:
                    most = 1
        timer = batch.stats.stopwatch
        with timer("verifier"):
            answer = self.decode(draft, drafting, most)
            rounds = answer.iterations(self.call.done)
        if drafting is not None:
            drafted = sum(one.seconds[1] for one in rounds)
            timer.add("drafter", drafted)
            timer.add("verifier", -drafted)  # it times the call
        elif draft is not None and rounds:
            verifying = rounds[-1].seconds[2]
            spent = (seconds + verifying, seconds, verifying)
            rounds[-1] = rounds[-1]._replace(
                passes=draft.passes, forced=draft.forced, seconds=spent
            )
        if not rounds:
            return [], draft
        each = ([size * done.times for size in done.sizes] for done in rounds)
        added = [sum(sizes) for sizes in zip(*each)]
        batch.rows.advance(torch.tensor(added))
        batch.rows.grow(added)
        return rounds, None

    def decode(self, draft: Draft | None, drafting: Drafting | None, most: int) -> _Answer:
        """One call of the library: verify a draft, or without tokens in it do up to so many
        iterations; or draft and verify by turns. ``call.done`` iterations were done."""
        batch, call, session = self.batch, self.call, self.session
        count, traced = len(batch.rows.lengths_cpu), batch.parts.options.keep_trace
        if draft is not None:
            batch.rows.reserve(draft.width + 1)
            tokens, sizes = draft.tokens.contiguous(), draft.sizes.contiguous()
            answer = _Answer(count, draft.width, most, traced, tokens.tolist())
            places = pointer(tokens, torch.long), pointer(sizes, torch.long)
            call.drafts = Drafts(count, draft.width, *places)
        elif drafting is not None:
            answer = _Answer(count, drafting.block, most, traced)
            call.drafts = Drafts(count, drafting.block)
        call.drafting = None if drafting is None else ctypes.pointer(drafting)
        states = session.states_for(batch.rows.tokens.size(1))
        call.read_count = 0 if states is None else len(session.weights.read_layers)
        call.hypotheses = hypotheses_of(batch.rows)
        point_to_rows(call.rules, batch.prefix, batch.limits)
        call.max_iterations = most
        call.outputs = StepOutputs(
            *answer.addresses(), pointer(states), 0 if states is None else states.size(1)
        )
        stack = session.weights.stack
        stack.library.call("specdec_verify", session.buffers.pointer, ctypes.byref(call))
        batch.stats.windows += call.windows
        return answer


class _Answer:
    """Room for what the library writes, as in ``specdec::StepOutputs``, for R rows and drafts of W
    tokens. ``given``: the draft [R][W], where the library makes none."""

    def __init__(
        self, rows: int, width: int, most: int, traced: bool, given: list[list[int]] | None = None
    ) -> None:
        self.rows, self.width, self.given = rows, width, given
        entries = rows * most
        self.outcomes = (ctypes.c_int64 * (4 * entries))()
        self.drafts: Any = (ctypes.c_int64 * (entries * width))() if given is None else None
        self.choices = (ctypes.c_int64 * (entries * (width + 1)))() if traced else None
        self.seconds = (ctypes.c_double * (2 * most))()

    def addresses(self) -> list[int | None]:
        """In the order of ``StepOutputs``."""
        arrays = (self.outcomes, self.drafts, self.choices, self.seconds)
        return [None if array is None else ctypes.addressof(array) for array in arrays]

    def iterations(self, done: int) -> list[Iteration]:
        """Those that were done. Without drafts, all but the last add a token to each row, and none
        ends."""
        alike = 0 if self.width or self.choices is not None else max(0, done - 1)
        rounds = [self._iteration(i) for i in range(alike, done)]
        if alike > 0:
            zeros, least = [0] * self.rows, min(self.seconds[1 : 2 * alike : 2])
            columns = ([1] * self.rows, zeros, zeros, zeros, zeros, 0, (0.0, 0.0, least))
            rounds.insert(0, Iteration(*columns, times=alike))
        return rounds

    def _iteration(self, i: int) -> Iteration:
        rows, width, end = self.rows, self.width, 4 * self.rows * (i + 1)
        columns = [self.outcomes[4 * rows * i + column : end : 4] for column in range(4)]
        sizes, ended, accepted, proposed = columns
        drafting, verifying = self.seconds[2 * i : 2 * i + 2]
        seconds = (drafting + verifying, drafting, verifying)
        done = Iteration(sizes, ended, accepted, [0] * rows, proposed, seconds=seconds)
        if self.choices is None:
            return done
        if self.given is not None:
            drafts = [tokens[:count] for tokens, count in zip(self.given, proposed)]
        else:
            places = range(rows * width * i, rows * width * (i + 1), width)
            drafts = [self.drafts[at : at + count] for at, count in zip(places, proposed)]
        first = [(width + 1) * (rows * i + row) for row in range(rows)]
        choices = [self.choices[at : at + size] for at, size in zip(first, sizes)]
        emitted = [
            draft[:count] + best[count:] for draft, best, count in zip(drafts, choices, accepted)
        ]
        return done._replace(drafts=drafts, choices=choices, emitted=emitted)
