"""One iteration on any backend: propose, lay out, score, constrain, advance, read back."""

import dataclasses

import torch
from torch import Tensor

from fairseq_specdec.drafting import DraftSession
from fairseq_specdec.drafting.base import SilentSession
from fairseq_specdec.drafting.plan import Plan
from fairseq_specdec.engine.draft import Draft
from fairseq_specdec.engine.hypotheses import Hypotheses
from fairseq_specdec.engine.layout import Layout
from fairseq_specdec.engine.scores import Edits, Scores
from fairseq_specdec.engine.verifier import VerifierSession

from .draft_budget import DraftBudget
from .iteration import Iteration
from .length_limits import LengthLimits
from .parts import DecodingParts
from .search import Step, advance
from .stats import Stopwatch


@dataclasses.dataclass(eq=False)
class GeneralStep:
    """An iteration of every drafter, rule and verifier. The native library's equal it."""

    parts: DecodingParts
    session: VerifierSession
    drafts: DraftSession
    budget: DraftBudget
    hypotheses: Hypotheses
    limits: LengthLimits
    prefix: Tensor | None  # long [B, P] forced first tokens, padded on the right
    timer: Stopwatch

    def __post_init__(self) -> None:
        tokens = self.hypotheses.tokens
        self.rule = self.parts.rule.open(tokens.size(0), tokens.device)
        self._forced: Draft | None = None
        if self.prefix is not None and self.rule.keeps_forced:
            self._forced = self.parts.policy.forced_draft(self.prefix, self.limits)

    def step(self, draft: Draft | None = None) -> Iteration:
        """One iteration for every live row; one host-device synchronisation. ``draft``: to verify;
        None for the forced one or the drafter's."""
        before = self.timer.lap() if self.parts.options.keep_trace else None
        draft = draft or self.take_forced()
        if draft is None:
            draft = self.propose(self.plan())
        with self.timer("verifier"):
            tokens, layout = self.lay_out(draft)
            ended, scores = self.ended(draft), None
            # Without a pass where all have ended; on a GPU to ask would be a wait.
            if ended is None or ended.is_cuda or not bool(ended.all()):
                scores = self.session.score(tokens, layout)
                scores.edit(self.edits(draft))
            eos = self.parts.policy.eos
            step = advance(self.rule, self.hypotheses, draft, scores, eos, ended)
            if self.reads_states:
                self.drafts.commit(step.sizes, self.session.hidden_states())
            done = self.read_back(draft, scores, step, ended)
        return done._replace(
            passes=draft.passes, forced=draft.forced, seconds=self._seconds_since(before)
        )

    @property
    def reads_states(self) -> bool:
        """Whether the drafter is given the verifier's hidden states."""
        return self.parts.read_hidden_states and not self.drafts.never_drafts

    def plan(self) -> Plan:
        """How much the next iteration drafts."""
        plan = self.budget.plan(len(self.hypotheses.lengths_cpu))
        if self.budget.over and not self.drafts.never_drafts:
            self.drafts = SilentSession()
        return plan

    def take_forced(self) -> Draft | None:
        """The draft of the first iteration, where outputs must begin with a prefix; then None."""
        draft, self._forced = self._forced, None
        return draft

    def propose(self, plan: Plan) -> Draft:
        """What the drafter proposes, within the plan and the length limit."""
        hypotheses, limits = self.hypotheses, self.limits
        with self.timer("drafter"):
            if self.budget.ends_early:
                draft = self.drafts.propose(hypotheses, plan.size, plan.costs)
            else:
                draft = self.drafts.propose(hypotheses, plan.size)
            # A draft may reach the length limit, not pass it: there only </s> can follow.
            max_tokens = limits.longest - hypotheses.shortest
            if plan.size is not None:
                max_tokens = min(max_tokens, plan.size)
            near = hypotheses.longest + draft.width > limits.shortest
            return draft.limited(max_tokens, limits.of_rows - hypotheses.lengths if near else None)

    def lay_out(self, draft: Draft) -> tuple[Tensor, Layout]:
        """(long [B, N + 1], the last accepted token and the draft; where they stand)."""
        hypotheses = self.hypotheses
        hypotheses.reserve(draft.width + 1)
        tokens = hypotheses.last()
        if draft.width > 0:
            tokens = torch.cat([tokens, draft.tokens], 1)
        lengths, lengths_cpu = hypotheses.lengths, hypotheses.lengths_cpu
        return tokens, Layout.chain(lengths, lengths_cpu, tokens.size(1))

    def edits(self, draft: Draft) -> Edits:
        """The decoding constraints on the draft's tokens and the bonus token."""
        hypotheses, policy = self.hypotheses, self.parts.policy
        if policy.reads_hypotheses and draft.width > 0:
            columns = torch.arange(1, draft.width + 1, device=draft.tokens.device)
            hypotheses.write(hypotheses.lengths.unsqueeze(1) + columns, draft.tokens)
        return policy.edits(hypotheses, draft.width + 1, self.limits, self.prefix)

    def ended(self, draft: Draft) -> Tensor | None:
        """Bool [B], rows whose draft is the rest of the sentence, unverified: the rule trusts it
        and the constraints allow it. None where the rule trusts no endings."""
        if not self.rule.trusts_endings or draft.scores is None or draft.width == 0:
            return None
        sizes = draft.sizes.unsqueeze(1)
        last = draft.tokens.gather(1, (sizes - 1).clamp(min=0))
        ended = ((last == self.parts.policy.eos) & (sizes > 0)).squeeze(1)
        allowed = self.edits(draft).allow(draft.tokens)
        allowed |= torch.arange(draft.width, device=sizes.device) >= sizes
        return ended & allowed.all(1)

    def read_back(
        self, draft: Draft, scores: Scores | None, step: Step, unverified: Tensor | None
    ) -> Iteration:
        """What the host needs of every row: the iteration's one synchronisation."""
        columns = [step.sizes, step.done.long(), step.accepted, step.broken.long(), draft.sizes]
        if unverified is not None:
            columns.append(unverified.long())
        table = [each.unsqueeze(1) for each in columns]
        trace, count, width = self.parts.options.keep_trace, len(columns), draft.width
        if trace or step.emitted.is_cuda:
            table.append(step.emitted)
        if trace:
            table += [step.emitted if scores is None else scores.best(), draft.tokens]
        rows = torch.cat(table, 1).tolist()
        sizes, ended, accepted, broken, proposed, *trusted = list(zip(*rows))[:count]
        done = Iteration(sizes, ended, accepted, broken, proposed)
        if trusted:
            done = done._replace(unverified=[bool(each) for each in trusted[0]])
        if not (trace or step.emitted.is_cuda):
            return done
        emitted = [row[count : count + size] for row, size in zip(rows, done.sizes)]
        for number, tokens in enumerate(emitted):
            self.hypotheses.emit(number, tokens)
        if not trace:
            return done
        best, drafted = count + width + 1, count + 2 * (width + 1)
        return done._replace(
            emitted=emitted,
            choices=[row[best : best + size] for row, size in zip(rows, done.sizes)],
            drafts=[row[drafted : drafted + size] for row, size in zip(rows, done.proposed)],
        )

    def select(self, rows: Tensor, keep: list[int]) -> None:
        self.hypotheses.select(rows, keep)
        self.limits = self.limits.select(rows)
        if self.prefix is not None:
            self.prefix = self.prefix.index_select(0, rows)
        self.session.select(rows, keep)
        self.drafts.select(rows, keep)
        self.rule.select(rows)

    def _seconds_since(
        self, before: tuple[float, float, float] | None
    ) -> tuple[float, float, float]:
        """Seconds of an iteration: all of it, drafting, verification."""
        if before is None:
            return (0.0, 0.0, 0.0)
        now = self.timer.lap()
        return (now[0] - before[0], now[1] - before[1], now[2] - before[2])
