"""The loop over one batch: propose, lay out, score, constrain, advance, commit."""

from __future__ import annotations

import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from fairseq_specdec.drafting.native_block import NativeBlockSession
from fairseq_specdec.engine.draft_tree import DraftTree
from fairseq_specdec.engine.hypotheses import Hypotheses
from fairseq_specdec.engine.layout import Layout
from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.transfer import to_device

from .batch import OpenBatch
from .failures import refuse_sentence
from .fused_greedy import FusedSession, Verified
from .parts import Parts
from .results import Iteration, hypothesis
from .search import Step

# Widest block that the verifier's cache is prepared for; it grows where a draft is longer.
_WIDEST = 32

Lap = Tuple[float, float, float]


class _Facts(NamedTuple):
    """What the host learns of one row's iteration; the last two only for a trace."""

    size: int
    done: int
    accepted: int
    broken: int
    proposed: int
    draft: Sequence[int] = ()
    choices: Sequence[int] = ()


class _Round(NamedTuple):
    """An iteration that was done: of each row, and its seconds as in ``Iteration``."""

    facts: List[_Facts]
    seconds: Lap = (0.0, 0.0, 0.0)


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
        self.budget = parts.budget()
        self.search = parts.search.open(rows, self.device)
        self.fused: Optional[FusedSession] = None
        if parts.fused is not None and prefix is None:
            trace = parts.options.keep_trace
            self.fused = parts.fused.open(self.session, self.max_len, trace, self.search.rule)
        self.left_over: Optional[DraftTree] = None  # drafted, not verified yet
        self.prefix = prefix
        start = policy.eos if bos_token is None else bos_token
        self.hypotheses = Hypotheses(rows, self.max_len + 3, start, policy.pad, src_tokens)
        self.origin = list(range(rows))
        self.rounds = [0] * rows

    @property
    def live(self) -> bool:
        """Whether a row is left."""
        return bool(self.hypotheses.lengths_cpu)

    def iterate(self, most: int = 1) -> None:
        """One iteration for every live row; one host-device synchronisation.

        Args:
            most: where nothing is ever drafted, do up to so many iterations, until a row ends.
        """
        most = min(most, self.max_len + 1 - self.hypotheses.longest)
        budget = 0 if self.left_over else self.budget.most(len(self.hypotheses.lengths_cpu))
        rounds, passes = self._speculate(most, budget), 0
        if not rounds:
            rounds, passes = self._take_turns(most, budget)
        for done in rounds:
            self._book(done, passes)
        self._commit(rounds[-1].facts)

    def _take_turns(self, most: int, budget: Optional[int]) -> Tuple[List[_Round], int]:
        """(iterations done, passes of each draft): the drafter's turn, then the verifier's."""
        timer = self.stats.stopwatch
        before = timer.lap() if self.parts.options.keep_trace else None
        resting = budget == 0 and self.left_over is None
        with timer("drafter"):
            tree, self.left_over = self.left_over or self._propose(budget), None
        if not self.drafts.silent:
            most = min(most, 1 + self.budget.rests) if resting else 1
        with timer("verifier"):
            rounds = self._verify_fused(tree, most) or [_Round(self._verify(tree))]
        if before is not None and len(rounds) == 1:
            rounds = [rounds[0]._replace(seconds=self._seconds_since(before))]
        return rounds, tree.passes

    def _speculate(self, most: int, budget: Optional[int]) -> List[_Round]:
        """Both turns several times in one call; nothing where that is not done."""
        fused, drafts = self.fused, self.drafts
        if fused is None or budget is not None or not isinstance(drafts, NativeBlockSession):
            return []
        started = time.perf_counter()
        found, self.left_over = fused.speculate(self.hypotheses, drafts, most, self.budget)
        drafting = sum(one.drafting for one in found)
        timer = self.stats.stopwatch
        timer.add("drafter", drafting)
        timer.add("verifier", time.perf_counter() - started - drafting)
        return self._take_in(fused, found)

    def _verify_fused(self, tree: DraftTree, most: int) -> List[_Round]:
        """Score the draft and add what is accepted, in one call; nothing where that is not done."""
        fused = self.fused
        if fused is None or not tree.is_chain:
            return []
        return self._take_in(fused, fused.verify(self.hypotheses, tree, most))

    def _take_in(self, fused: FusedSession, found: List[Verified]) -> List[_Round]:
        """What a call of the library added to the hypotheses."""
        rounds = [
            _Round(
                [self._fused_fact(one, row) for row in range(len(one.facts))],
                (one.drafting + one.verifying, one.drafting, one.verifying),
            )
            for one in found
        ]
        if rounds:
            hypotheses = self.hypotheses
            by_row = zip(*([fact.size for fact in one.facts] for one in rounds))
            hypotheses.lengths = hypotheses.lengths + torch.tensor([sum(row) for row in by_row])
            if self.parts.read_hidden_states:
                states = fused.hidden_states
                for done, each in zip(rounds[-len(states) :], states):
                    self.drafts.commit(torch.tensor([fact.size for fact in done.facts]), each)
        return rounds

    def _fused_fact(self, one: Verified, row: int) -> _Facts:
        (size, done, accepted), draft = one.facts[row], one.drafts[row]
        if not self.parts.options.keep_trace:
            return _Facts(size, done, accepted, 0, len(draft))
        return _Facts(size, done, accepted, 0, len(draft), draft, one.choices[row][:size])

    def _verify(self, tree: DraftTree) -> List[_Facts]:
        """Lay out, score, constrain and advance."""
        tokens, layout = self._lay_out(tree)
        scores = self.session.score(tokens, layout)
        self._constrain(tree, scores)
        step = self.search.advance(self.hypotheses, tree, scores, self.parts.policy.eos)
        if self.parts.read_hidden_states:
            self.drafts.commit(step.sizes, self.session.hidden_states())
        return self._read_back(tree, scores, step)

    def _propose(self, budget: Optional[int]) -> DraftTree:
        """What the drafter proposes, within the budget and the length limit."""
        hypotheses = self.hypotheses
        tree = self.drafts.propose(hypotheses, budget)
        # A draft may reach the length limit, not pass it: there only </s> can follow.
        most = self.max_len - hypotheses.shortest
        if budget is not None:
            most = min(most, budget)
        near = hypotheses.longest + tree.width > self.max_len
        return tree.limited(most, self.max_len - hypotheses.lengths if near else None)

    def _lay_out(self, tree: DraftTree) -> Tuple[Tensor, Layout]:
        """(long [B, N + 1], the last accepted token and the draft; where they stand)."""
        hypotheses = self.hypotheses
        hypotheses.reserve(tree.width + 1)
        tokens = hypotheses.last()
        if tree.width > 0:
            tokens = torch.cat([tokens, tree.tokens], 1)
        places = (hypotheses.lengths, hypotheses.lengths_cpu)
        if tree.parents is not None:
            return tokens, Layout.tree(*places, tree.parents)
        return tokens, Layout.chain(*places, tokens.size(1))

    def _constrain(self, tree: DraftTree, scores: Scores) -> None:
        """Apply the decoding constraints to the scores."""
        hypotheses, policy = self.hypotheses, self.parts.policy
        if policy.no_repeat_ngram_size > 0 and tree.width > 0:
            columns = torch.arange(1, tree.width + 1, device=tree.tokens.device)
            hypotheses.write(hypotheses.lengths.unsqueeze(1) + columns, tree.tokens)
        scores.edit(policy.edits(hypotheses, tree.width + 1, self.max_len, self.prefix))

    def _read_back(self, tree: DraftTree, scores: Scores, step: Step) -> List[_Facts]:
        """What the host needs of every row: the iteration's one synchronisation."""
        columns = [step.sizes, step.done.long(), step.accepted, step.broken.long(), tree.sizes]
        facts = torch.stack(columns, 1)
        if not self.parts.options.keep_trace:
            return [_Facts(*row) for row in facts.tolist()]
        first, second = len(columns), len(columns) + tree.width
        rows = []
        for row in torch.cat([facts, tree.tokens, scores.best()], 1).tolist():
            known = _Facts(*row[:first])
            draft, choices = row[first:][: known.proposed], row[second:][: known.size]
            rows.append(known._replace(draft=draft, choices=choices))
        return rows

    def _book(self, done: _Round, passes: int) -> None:
        """Take note of an iteration that was done."""
        facts = done.facts
        for row, fact in enumerate(facts):
            if fact.broken:
                self._refuse(row, fact.size)
            if self.parts.options.keep_trace:
                self._trace(row, fact, passes, len(facts), done.seconds)
            self.rounds[row] += 1
            self.hypotheses.lengths_cpu[row] += fact.size
        self._count(facts)

    def _commit(self, facts: List[_Facts]) -> None:
        """Roll back what was rejected in the last iteration, and let finished rows leave."""
        hypotheses = self.hypotheses
        keep = [row for row, fact in enumerate(facts) if not fact.done]
        for row, fact in enumerate(facts):
            if fact.done:
                self._finish(row)
        if not keep:
            hypotheses.lengths_cpu = []
            return
        self.session.commit(hypotheses.lengths, list(hypotheses.lengths_cpu))
        if len(keep) < len(facts):
            self._select(keep)

    def _count(self, facts: List[_Facts]) -> None:
        """Add an iteration to the statistics, and tell the budget."""
        stats = self.stats
        # A row that emitted no more than it accepted ended inside its draft.
        cut = sum(fact.accepted < min(fact.proposed, fact.size) for fact in facts)
        accepted = sum(fact.accepted for fact in facts)
        for fact in facts:
            # A sentence that ended inside its draft has no bonus token, and judged no more.
            judged = fact.accepted + (fact.size > fact.accepted < fact.proposed)
            stats.judged[judged, fact.accepted] += 1
        stats.iterations += len(facts)
        stats.emitted += sum(fact.size for fact in facts)
        stats.accepted += accepted
        stats.scored += sum(1 + fact.proposed for fact in facts)
        stats.drafted += sum(fact.proposed for fact in facts)
        stats.rollbacks += cut
        stats.undrafted += sum(fact.proposed == 0 for fact in facts)
        self.budget.learn(sum(fact.proposed > 0 for fact in facts), accepted, cut)

    def _seconds_since(self, before: Lap) -> Lap:
        """Seconds of an iteration: all of it, drafting, verification."""
        now = self.stats.stopwatch.lap()
        return (now[0] - before[0], now[1] - before[1], now[2] - before[2])

    def _trace(self, row: int, fact: _Facts, passes: int, rows: int, seconds: Lap) -> None:
        position = self.hypotheses.lengths_cpu[row]
        emitted = self.hypotheses.first[row, position + 1 : position + 1 + fact.size].tolist()
        self.traces[row].append(
            Iteration(
                list(fact.draft), fact.accepted, emitted, list(fact.choices),
                position, passes, rows, seconds,
            )
        )  # fmt: skip

    def _refuse(self, row: int, size: int) -> None:
        """Raise for a token without a log-probability among the last ``size`` of a row."""
        start = self.hypotheses.lengths_cpu[row]
        scores = self.hypotheses.scores[row, 0, start : start + size].tolist()
        at = next(i for i, score in enumerate(scores) if not score > float("-inf"))
        models, broken = self.parts.verifier.models, scores[at] != scores[at]
        refuse_sentence(models, broken, start + at, self.origin[row])

    def _finish(self, row: int) -> None:
        """Store the hypothesis of a row that has ended."""
        length = self.hypotheses.lengths_cpu[row]
        options = self.parts.options
        with torch.inference_mode(False):  # callers may write to the tensors of a hypothesis
            found = hypothesis(
                self.hypotheses.first[row, 1 : length + 1].clone(),
                self.hypotheses.scores[row, 0, :length].clone(),
                self.rounds[row],
                options.normalize_scores,
                options.len_penalty,
                self.traces[row],
            )
        self.finished[self.origin[row]] = [found]
        self.stats.sentences += 1

    def _select(self, keep: List[int]) -> None:
        """Keep only these rows."""
        rows = to_device(keep, self.hypotheses.tokens.device)
        self.hypotheses.select(rows, keep)
        if self.prefix is not None:
            self.prefix = self.prefix.index_select(0, rows)
        self.session.select(rows, keep)
        self.drafts.select(rows, keep)
        self.search.select(rows)
        for name in ("origin", "rounds", "traces"):
            values = getattr(self, name)
            setattr(self, name, [values[row] for row in keep])
