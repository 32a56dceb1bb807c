"""An iteration of greedy search in one call of the native library.

What the torch code does in some thirty operators of a few microseconds each (embed, score,
constrain, accept, emit) is one call here. It serves the usual case, one model with constraints that
need no look at the hypotheses, and leaves every other one, and ties of the best tokens, to the
general code, whose answers it must equal. The rules are those of Ge et al. 2022: exact (equations 5
and 7), or top-beta and tau (equations 8 and 9), the latter within a regret budget or not.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from fairseq_specdec.acceptance import (
    AcceptanceRule,
    ExactRule,
    RegretBudgetRule,
    RegretOfBatch,
    TopBetaRule,
)
from fairseq_specdec.drafting.native_block import LoopDrafts, NativeBlockSession
from fairseq_specdec.engine.draft_tree import DraftTree
from fairseq_specdec.engine.hypotheses import Hypotheses
from fairseq_specdec.engine.native.decoder import NativeDecoder, NativeDecoderSession
from fairseq_specdec.engine.native.embedding import EmbeddingTables
from fairseq_specdec.engine.native.structures import (
    Drafts,
    HypothesesView,
    Rules,
    Verdict,
    VerifyCall,
)
from fairseq_specdec.engine.verifier import Verifier, VerifierSession

from .draft_budget import FORGETS, DraftBudget
from .policy import LogitsPolicy

# Iterations of one call that drafts.
_MOST_WITH_DRAFTS = 64


class Verified(NamedTuple):
    """What one iteration added.

    Attributes:
        facts: of each row the tokens added, 1 if the sentence ended, and the accepted draft tokens.
        choices: of each row the verifier's best tokens as far as they were looked at; empty if they
            were not asked for.
        drafts: of each row the draft tokens.
        drafting: seconds that the drafts took, if they were made in the same call.
        verifying: seconds of the verification.
    """

    facts: List[List[int]]
    choices: List[List[int]]
    drafts: List[List[int]]
    drafting: float
    verifying: float


def _rule(rule: AcceptanceRule) -> Optional[Any]:
    """(top_beta, tau, regret budget) of a rule that the library knows, else None."""
    if type(rule) is ExactRule:
        return (1, 0.0, math.inf)
    if type(rule) is TopBetaRule:
        return (rule.top_beta, rule.tau, math.inf)
    if type(rule) is RegretBudgetRule and type(rule.rule) is TopBetaRule:
        return (rule.rule.top_beta, rule.rule.tau, rule.budget)
    return None


class FusedGreedy:
    """Verifies drafts natively; threads share it.

    Args:
        verifier: one model on the native backend.
        rule: exact, or top-beta, within a regret budget or not.
        policy: without n-gram blocking.
        tables: of the decoder's embeddings.
    """

    def __init__(
        self,
        verifier: Verifier,
        rule: AcceptanceRule,
        policy: LogitsPolicy,
        tables: EmbeddingTables,
    ) -> None:
        self.weights = verifier.weights[0]
        self.tables = tables
        known = _rule(rule)
        assert known is not None
        self.rules = Rules(
            policy.pad, policy.unk, policy.eos, policy.min_len, 0, policy.unk_penalty,
            verifier.temperature, *known,
        )  # fmt: skip

    def open(
        self,
        session: VerifierSession,
        max_len: int,
        choices: bool,
        rule: Optional[AcceptanceRule] = None,
    ) -> FusedSession:
        """Begin a batch.

        Args:
            session: of the verifier.
            rule: the batch's own, where it remembers something of each sentence.
            max_len: the step at which only </s> may follow.
            choices: tell the verifier's best tokens, for a trace.
        """
        return FusedSession(self, session, max_len, choices, rule)


class _Answer(NamedTuple):
    """Room for what the library writes, as in ``specdec::Verdict``."""

    rows: int
    width: int
    facts: Any
    choices: Any
    seconds: Any


class FusedSession:
    """One batch; arguments as for ``FusedGreedy.open``.

    Attributes:
        hidden_states: of the last call's iterations (of the last one alone, where it drafted in
            each), each [B, N + 1, n C], of the layers to read; empty where none are read.
    """

    def __init__(
        self,
        greedy: FusedGreedy,
        session: VerifierSession,
        max_len: int,
        choices: bool,
        rule: Optional[AcceptanceRule],
    ) -> None:
        layers = session.sessions[0].layers
        assert isinstance(layers, NativeDecoderSession)
        self.layers = layers
        self.wants_choices = choices
        self.regret = rule if isinstance(rule, RegretOfBatch) else None
        self.hidden_states: List[Tensor] = []
        self.table = session.sessions[0].positions  # the call points into it
        self.call = VerifyCall(embedding=greedy.tables.of(self.table), rules=greedy.rules)
        self.call.rules.max_len = max_len
        self.call.read_count = len(layers.weights.read_layers)
        self.call.read = layers.weights.read

    def verify(self, hypotheses: Hypotheses, tree: DraftTree, most: int = 1) -> List[Verified]:
        """Score a chain, accept, and add what follows to the hypotheses.

        Args:
            hypotheses: changed in place, but for ``lengths_cpu``.
            tree: N draft tokens a row.
            most: without drafts, do so many iterations, until a row ends.

        Returns:
            The iterations done; none where the library leaves the choice to the general code.
        """
        rows, width = tree.tokens.shape
        hypotheses.reserve(width + most)
        tokens = tree.tokens if tree.tokens.stride(1) == 1 else tree.tokens.contiguous()
        sizes = tree.sizes.contiguous()
        drafts = Drafts(rows, width, tokens.data_ptr(), tokens.stride(0), sizes.data_ptr())
        found = self._run(hypotheses, drafts, most)
        pairs = zip(tokens.tolist(), sizes.tolist())
        proposed = [draft[:size] for draft, size in pairs]
        return [self._read(found, i, proposed, 0.0) for i in range(self.call.done)]

    def speculate(
        self, hypotheses: Hypotheses, session: NativeBlockSession, most: int, budget: DraftBudget
    ) -> Tuple[List[Verified], Optional[DraftTree]]:
        """Draft and verify by turns in one call, until a row ends or drafting does not pay.

        Args:
            hypotheses: changed in place, but for ``lengths_cpu``.
            session: drafts for them.
            most: iterations, 1 or more.
            budget: sets no limit now; the caller tells it of the iterations later.

        Returns:
            (the iterations done; where the library leaves the choice to the general code, the draft
            that is to be verified next).
        """
        most = min(most, _MOST_WITH_DRAFTS)
        loop = session.begin_loop(hypotheses, most, budget.accepted, FORGETS, budget.bar)
        if loop is None:
            return [], None
        rows, width = len(hypotheses.lengths_cpu), session.options.block_size
        hypotheses.reserve(1)
        found = self._run(hypotheses, Drafts(rows, width), most, session, loop)
        session.end_loop(loop)
        done = self.call.done
        rounds = [self._read(found, i, loop.of(i), loop.seconds[i]) for i in range(done)]
        return rounds, loop.left_over(done)

    def _run(
        self,
        hypotheses: Hypotheses,
        drafts: Drafts,
        most: int,
        session: Optional[NativeBlockSession] = None,
        loop: Optional[LoopDrafts] = None,
    ) -> _Answer:
        """One call of the library."""
        rows, width, call = drafts.rows, drafts.width, self.call
        answer = _Answer(
            rows,
            width,
            (ctypes.c_int64 * (3 * rows * most))(),
            (ctypes.c_int64 * (rows * most * (width + 1) if self.wants_choices else 0))(),
            (ctypes.c_double * most)(),
        )
        self._point_to(hypotheses, call.hypotheses)
        states = self._states(rows, width, most if loop is None else 1)
        call.drafts = drafts
        call.verdict = Verdict(
            ctypes.addressof(answer.facts),
            ctypes.addressof(answer.choices) if self.wants_choices else None,
            ctypes.addressof(answer.seconds),
            None if states is None else states.data_ptr(),
            loop is None,
        )
        call.most = most
        call.loop = None
        if loop is not None and session is not None:
            call.drafter, call.draft_session = (
                session.drafter.pointer,
                session.layers.buffers.pointer,
            )
            call.loop = ctypes.pointer(loop.loop)
        stack = self.layers.weights.stack
        stack.library.call("specdec_verify", self.layers.buffers.pointer, ctypes.byref(call))
        self.hidden_states = [] if states is None else list(states[: call.done])
        return answer

    def _point_to(self, hypotheses: Hypotheses, view: HypothesesView) -> None:
        tokens, scores = hypotheses.tokens, hypotheses.scores
        view.tokens, view.token_stride = tokens.data_ptr(), tokens.stride(0)
        view.scores, view.score_stride = scores.data_ptr(), scores.stride(0)
        view.columns, view.lengths = tokens.size(2), hypotheses.lengths.data_ptr()
        view.spent = None if self.regret is None else self.regret.spent.data_ptr()

    def _states(self, rows: int, width: int, most: int) -> Optional[Tensor]:
        """Room for the hidden states of so many iterations, which a drafter may keep."""
        weights = self.layers.weights
        if not weights.read_layers:
            return None
        wide = len(weights.read_layers) * weights.stack.width
        return torch.empty(most, rows, width + 1, wide)

    @staticmethod
    def _read(answer: _Answer, i: int, drafts: List[List[int]], drafting: float) -> Verified:
        """Iteration ``i``."""
        rows, width = answer.rows, answer.width + 1
        facts = answer.facts[3 * rows * i : 3 * rows * (i + 1)]
        best = answer.choices[rows * width * i : rows * width * (i + 1)]
        return Verified(
            [facts[j : j + 3] for j in range(0, 3 * rows, 3)],
            [best[j : j + width] for j in range(0, len(best), width)],
            drafts,
            drafting,
            answer.seconds[i],
        )


def fused_greedy(
    verifier: Verifier, rule: AcceptanceRule, policy: LogitsPolicy
) -> Optional[FusedGreedy]:
    """The native way to verify, or None where it does not serve."""
    if len(verifier.weights) != 1 or _rule(rule) is None or policy.no_repeat_ngram_size > 0:
        return None
    weights = verifier.weights[0]
    if not isinstance(weights.layers, NativeDecoder) or not weights.layers.plain:
        return None
    tables = EmbeddingTables.find(weights.decoder)
    return None if tables is None else FusedGreedy(verifier, rule, policy, tables)
