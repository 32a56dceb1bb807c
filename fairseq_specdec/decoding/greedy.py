"""Greedy decoding of one batch: propose, lay out, score, constrain, advance, read back.

Greedy search emits the verifier's likeliest token; with drafts one pass of the verifier decides
several tokens (Ge et al. 2022, Algorithm 1). The acceptance rule says which draft tokens are kept.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_specdec.drafting.base import SilentSession
from fairseq_specdec.engine.scores import Edits, forbidden_by_ngrams
from fairseq_specdec.engine.state import Draft, Layout, Rows, ascending, read_back

from .batch import OpenBatch, hypothesis
from .iteration import Iteration
from .native_chains import NativeChains
from .pace import Plan
from .recorded import replay

AHEAD = 4
"""Most iterations between two waits for a GPU; with more, sentences continue longer after their
end."""


class Batch(OpenBatch):
    """The live rows of one batch. Rows that reach </s> leave it. ``close`` ends it.

    Attributes:
        rows: the outputs of the live sentences.
        prefix: long [B, P] forced first tokens, padded on the right; or None.
    """

    widest = 32  # the cache grows where a draft is longer

    def begin(self, src_tokens: Tensor, start: int, prefix: Tensor | None) -> None:
        parts, count = self.parts, len(src_tokens)
        self.rows = Rows(count, self.max_len + 3, start, parts.policy.pad, src_tokens)
        self.prefix = prefix
        self._forced: Draft | None = None
        if prefix is not None and parts.rule.keeps_forced:
            self._forced = parts.policy.forced_draft(prefix, self.limits)
        self.native = None
        if parts.native is not None:
            self.native = NativeChains(parts.native, self, src_tokens)
        self.rounds = 0

    def iterate(self, max_iterations: int = 1) -> None:
        """One iteration for every live row, or several; then rows leave that have ended.
        ``max_iterations``: the native library may do up to so many iterations, until a row ends,
        and a GPU up to ``AHEAD``, if nothing drafts."""
        rounds: list[Iteration] = []
        draft = None
        max_iterations = min(max_iterations, self.max_len + 1 - self.rows.longest)
        if self.native is not None:
            rounds, draft = self.native.run(max_iterations)
        elif max_iterations > 1 and self.runs_ahead and self._forced is None:
            return self._run_ahead(min(max_iterations, AHEAD))
        for done in rounds or [self._timed(draft)]:
            self._book(done)
        self._leave(done.done)

    def _timed(self, draft: Draft | None) -> Iteration:
        """A step and its times; on a GPU the clock would wait for it, and runs for traces only."""
        if not self.parts.options.keep_trace and self.rows.tokens.is_cuda:
            return self.step(draft)
        timer = self.stats.stopwatch
        began, drafting, verifying = timer.lap()
        done = self.step(draft)
        now = timer.lap()
        return done._replace(seconds=(now[0] - began, now[1] - drafting, now[2] - verifying))

    def step(self, draft: Draft | None) -> Iteration:
        """One iteration for every live row, with any drafter, rule and verifier; the host waits
        once for the device. ``draft``: to verify; None for the forced one or the drafter's."""
        draft, read = draft or self.take_forced(), None
        if draft is None:
            plan = self.plan()
            read = replay(self, 1, plan.size) if plan.size != 0 else None
            draft = Draft.empty(self.rows.lengths) if read else self.propose(plan)
        done = self._note(*read_back(*(read or self.verify(draft))))
        return done._replace(passes=draft.passes, forced=draft.forced)

    @property
    def runs_ahead(self) -> bool:
        """Whether iterations need not be read one by one: a GPU does them, without drafts."""
        gpu = self.rows.tokens.is_cuda and not self.parts.options.keep_trace
        return gpu and self.drafts.never_drafts

    def _run_ahead(self, iterations: int) -> None:
        """So many iterations without drafts, after which the host waits once for the device. A row
        that ends continues until then; nobody reads what it writes."""
        self.plan()
        rows, read = self.rows, replay(self, iterations, 0)
        draft, lengths = Draft.empty(rows.lengths), rows.lengths_cpu
        live = list(range(len(lengths)))
        for _ in range(0 if read else iterations):
            read += self.verify(draft)
            rows.lengths_cpu = [have + 1 for have in rows.lengths_cpu]
        rows.lengths_cpu = lengths
        columns = read_back(*read)
        for tokens, scores in zip(columns[::2], columns[1::2]):
            done = self._note(tokens[live], scores[live])
            self._book(done)
            self._leave(done.done)
            live = [row for row, ended in zip(live, done.done) if not ended]
            if not live:
                break

    def verify(self, draft: Draft) -> list[Tensor]:
        """Verify a draft of N tokens, and add the accepted tokens and the bonus token to every row,
        on the device. Returns what the host needs of it, as for ``_note``."""
        rows, width, rule = self.rows, draft.width, self.parts.rule
        with self.stats.stopwatch("verifier"):
            # Lay out. The last token comes first: its keys and values are in no cache yet.
            rows.reserve(width + 1)
            tokens = torch.cat([rows.last(), draft.tokens], 1) if width else rows.last()
            layout = Layout.chain(rows, width + 1)
            # Score and constrain, unless the drafts end all sentences; on a GPU that is not asked.
            edits = self._edits(draft, layout.positions)
            ended, scores = self._ended(draft, edits), None
            counts = bonus = draft.sizes
            emitted = None
            if ended is None or ended.is_cuda or not bool(ended.all()):
                scores = self.session.score(tokens, layout)
                scores.edit(edits)
                counts, bonus, emitted = rule.accept(draft, scores)
            if ended is not None:
                counts = torch.where(ended, draft.sizes, counts)
            # Advance. Columns after the emitted ones are overwritten by later iterations.
            if emitted is None:
                emitted = bonus.unsqueeze(1)
                if width > 0:
                    emitted = torch.cat([draft.tokens, emitted], 1)
                    emitted = emitted.scatter(1, counts.unsqueeze(1), bonus.unsqueeze(1))
            own = None if scores is None else scores.of(emitted)
            if ended is not None and draft.scores is not None:
                drafted = F.pad(draft.scores, (0, 1))
                own = drafted if own is None else torch.where(ended.unsqueeze(1), drafted, own)
            assert own is not None
            rows.tokens[:, 1:].scatter_(1, layout.slots, emitted)
            rows.scores.scatter_(1, layout.slots, own)
            rows.advance(counts + 1 if width > 0 else 1, bonus.unsqueeze(1))
        of_rows = [counts, draft.sizes] if width > 0 else []
        of_rows += [] if ended is None else [ended.long()]
        table = [emitted, own, *(each.unsqueeze(1).expand_as(own) for each in of_rows)]
        if self.parts.options.keep_trace:
            table += [emitted if scores is None else scores.best(), F.pad(draft.tokens, (0, 1))]
        return table

    def plan(self) -> Plan:
        """How much the next iteration drafts."""
        plan = self.budget.plan(len(self.rows.lengths_cpu))
        if self.budget.over and not self.drafts.never_drafts:
            self.drafts.close()
            self.drafts = SilentSession()
        if self.drafts.never_drafts:
            self.session.sessions[0].reads = False
        return plan

    def take_forced(self) -> Draft | None:
        """The draft of the first iteration, where outputs must begin with a prefix; then None."""
        draft, self._forced = self._forced, None
        return draft

    def propose(self, plan: Plan) -> Draft:
        """What the drafter proposes, within the plan and the length limit."""
        rows, limits = self.rows, self.limits
        with self.stats.stopwatch("drafter"):
            costs = (plan.costs,) if self.budget.ends_early else ()
            draft = self.drafts.propose(rows, plan.size, *costs)
            # A draft may reach the length limit, not pass it: there only </s> can follow.
            max_tokens = limits.longest - rows.shortest
            if plan.size is not None:
                max_tokens = min(max_tokens, plan.size)
            near = rows.longest + draft.width > limits.shortest
            return draft.limited(max_tokens, limits.of_rows - rows.lengths if near else None)

    def _edits(self, draft: Draft, steps: Tensor) -> Edits:
        """The decoding constraints on the draft's tokens and the bonus token, which are those
        after so many ``steps``, long [B, N + 1]."""
        rows, policy, listed = self.rows, self.parts.policy, None
        if policy.reads_hypotheses:
            if draft.width > 0:
                rows.tokens.scatter_(1, steps[:, 1:], draft.tokens)
            listed = forbidden_by_ngrams(rows.tokens, steps, policy.no_repeat_ngram_size)
        reach = (rows.shortest, rows.longest + draft.width)
        return policy.edits(steps, reach, self.limits, self.prefix, listed)

    def _ended(self, draft: Draft, edits: Edits) -> Tensor | None:
        """Bool [B], rows whose draft is the rest of the sentence, unverified: the rule trusts it
        and the constraints allow it. None where the rule trusts no endings."""
        if not self.parts.rule.trusts_endings or draft.scores is None or draft.width == 0:
            return None
        sizes = draft.sizes.unsqueeze(1)
        last = draft.tokens.gather(1, (sizes - 1).clamp(min=0))
        ended = ((last == self.parts.policy.eos) & (sizes > 0)).squeeze(1)
        allowed = edits.allow(draft.tokens)
        allowed |= ascending(draft.width, sizes.device) >= sizes
        return ended & allowed.all(1)

    def _note(self, emitted: Any, scores: Any, *more: Any) -> Iteration:
        """What was done, and count it on the host.

        Args:
            emitted: [B, N + 1], the tokens of each row, then anything.
            scores: [B, N + 1], their log-probabilities.
            more: [B, N + 1], of rows, in all columns: accepted and draft tokens, if N > 0, and
                whether a draft ended the row, where the rule trusts endings; then, for traces, the
                likeliest tokens, and the draft.
        """
        eos, traced = self.parts.policy.eos, self.parts.options.keep_trace
        of_rows = more[:-2] if traced else more
        columns = [each[:, 0].tolist() for each in of_rows]
        kept, proposed, *trusted = columns or [[0] * len(emitted)] * 2
        words = [up_to(row, count, eos) for row, count in zip(emitted.tolist(), kept)]
        added = list(map(len, words))
        finite = scores > float("-inf")  # neither NaN nor -inf is a token's log-probability
        self.rows.grow(added, words)
        iteration = Iteration(
            sizes=added,
            done=[row[-1] == eos for row in words],
            accepted=list(map(min, kept, added)),
            broken=[not row[:size].all() for row, size in zip(finite, added)],
            proposed=proposed,
            unverified=list(map(bool, trusted[0])) if trusted else (),
        )
        if not traced:
            return iteration
        best, drafts = (each.tolist() for each in more[-2:])
        return iteration._replace(
            emitted=words,
            choices=[row[:size] for row, size in zip(best, added)],
            drafts=[row[:n] for row, n in zip(drafts, proposed)],
        )

    def _book(self, done: Iteration) -> None:
        """Take note of an iteration that was done."""
        if any(done.broken):
            self._refuse(done)
        if self.parts.options.keep_trace:
            self.iterations.append(done._replace(rows=self.rows.origin))
        self.rounds += done.times
        self._count(done)

    def _count(self, done: Iteration) -> None:
        self.stats.count(done)
        if not done.forced:
            self.budget.learn(done)

    def _leave(self, done: Sequence[int]) -> None:
        """Let the rows leave that have ended."""
        rows, keep = self.rows, []
        for row, ended in enumerate(done):
            if not ended:
                keep.append(row)
                continue
            length, sentence = rows.lengths_cpu[row], rows.origin[row]
            tokens, scores = rows.tokens[row, 1 : length + 1], rows.scores[row, :length]
            trace, options = self.trace(sentence), self.parts.options
            self.store(sentence, [hypothesis(tokens, scores, self.rounds, options, trace)])
        if len(keep) == len(done):
            return
        kept = rows.keep(keep)
        if keep:
            self.limits = self.limits.select(kept)
            if self.prefix is not None:
                self.prefix = self.prefix.index_select(0, kept)
            self.session.keep(kept, len(keep))
            self.drafts.keep(kept, keep)

    def _refuse(self, done: Iteration) -> None:
        """Raise for the first row that was given a token without a log-probability."""
        row, rows = list(map(bool, done.broken)).index(True), self.rows
        end = rows.lengths_cpu[row]
        start = end - done.sizes[row]
        scores = rows.scores[row, start:end].tolist()
        at = next(i for i, score in enumerate(scores) if not score > float("-inf"))
        self.refuse(scores[at] != scores[at], start + at, rows.origin[row])

    def close(self) -> None:
        """End the batch. What refers back to it goes, so that its memory is free at once."""
        self.native = None
        super().close()


def up_to(tokens: list[int], accepted: int, eos: int) -> list[int]:
    """So many accepted tokens and the bonus token, of these; </s> accepted inside a draft ends the
    sentence there."""
    added = tokens[: accepted + 1]
    return added[: added.index(eos) + 1] if eos in added else added
