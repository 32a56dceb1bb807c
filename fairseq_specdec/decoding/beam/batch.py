"""Beam search over one batch: draft, place, score, constrain, replay."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import torch
from torch import Tensor

from fairseq_specdec.engine.layout import Layout
from fairseq_specdec.engine.ngrams import forbidden_by_ngrams

from ..failures import no_token
from ..parts import Parts
from ..results import Iteration, hypothesis
from ..stats import DecodingStats
from .prefix_tree import Node, visible
from .replay import BeamRules, Ended, NoTokenError, Sentence

# Columns that the verifier's cache is prepared for beside those of one hypothesis.
_WIDEST = 64


class BeamBatch:
    """The sentences of one batch. Those that are done leave it. ``close`` ends it.

    Attributes:
        finished: the hypotheses of each sentence, best first; None while it is live.
        traces: iterations of each live sentence so far, if the options ask for them.
        stats: what was done so far.
        max_len: most tokens before </s>.

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
        self.parts = parts
        self.started = time.perf_counter()
        self.stats = DecodingStats()
        src_tokens = net_input["src_tokens"]
        self.device = src_tokens.device
        rows, width = src_tokens.shape
        policy = parts.policy
        self.max_len = parts.options.length_limit(width, policy.min_len)
        timer = self.stats.stopwatch
        timer.on(self.device)
        with timer("encoder"):
            encoder_outs = parts.verifier.encode(net_input)
        with timer("verifier"):
            self.session = parts.verifier.open(encoder_outs, self.max_len, _WIDEST)
        self.rules = BeamRules(
            parts.options.beam, policy.eos, self.max_len, max(0.0, -policy.unk_penalty)
        )
        self.prefix = prefix
        forced = [()] * rows if prefix is None else prefix.tolist()
        self.start = policy.eos if bos_token is None else bos_token
        self.sentences = [Sentence(self.rules, self.start, row) for row in forced]
        self.origin = list(range(rows))
        self.rounds = [0] * rows
        self.traces: List[List[Iteration]] = [[] for _ in range(rows)]
        self.finished: List[Any] = [None] * rows

    @property
    def live(self) -> bool:
        """Whether a sentence is left."""
        return bool(self.sentences)

    def iterate(self, most: int = 1) -> None:
        """One pass of the verifier for every live sentence, and the steps that follow from it; one
        host-device synchronisation.

        Args:
            most: not used.
        """
        began = time.perf_counter()
        with self.stats.stopwatch("verifier"):
            block = [sentence.live for sentence in self.sentences]
            self._score(block)
            steps = [self._advance(row) for row in range(len(self.sentences))]
        self._book(steps, time.perf_counter() - began)
        self._leave()

    def _score(self, block: Sequence[Sequence[Node]]) -> None:
        """Learn what may follow each of the nodes (of every sentence some, each without slot)."""
        for sentence, nodes in zip(self.sentences, block):
            sentence.tree.place(nodes)
        width = max(map(len, block))
        numbers = np.zeros((3, len(block), width), dtype=np.int64)
        for row, nodes in enumerate(block):
            count = len(nodes)
            numbers[0, row, :count] = [node.token for node in nodes]
            numbers[1, row, :count] = [node.depth for node in nodes]
            numbers[2, row, :count] = [node.slot for node in nodes]
            # What stands in the empty entries is written where nobody looks.
            numbers[2, row, count:] = self.sentences[row].tree.slots
        seen = visible(block, width)
        upto = int(numbers[2].max()) + 1
        if upto > seen.shape[2]:
            seen = np.pad(seen, ((0, 0), (0, 0), (0, upto - seen.shape[2])))
        tokens, positions, slots = torch.from_numpy(numbers).to(self.device).unbind(0)
        layout = Layout.scattered(positions, slots, torch.from_numpy(seen).to(self.device))
        scores = self.session.score(tokens, layout)
        reach = (int(numbers[1].min()), int(numbers[1].max()))
        listed = self._repeated(block, width) if self.parts.policy.no_repeat_ngram_size else None
        policy = self.parts.policy
        scores.edit(policy.edits_at(positions, reach, self.max_len, self.prefix, listed))
        found = scores.topk(self.rules.candidates)
        log_probs, best = (part.cpu().numpy() for part in found)
        for row, nodes in enumerate(block):
            for entry, node in enumerate(nodes):
                node.best = (log_probs[row, entry], best[row, entry])

    def _repeated(self, block: Sequence[Sequence[Node]], width: int) -> Tensor:
        """Long [B, W, T], the tokens that would repeat an n-gram after each node."""
        paths = [
            [[self.start] + [step.token for step in node.path()] for node in nodes]
            for nodes in block
        ]
        longest = max(len(path) for row in paths for path in row)
        table = np.zeros((len(block), width, longest), dtype=np.int64)
        last = np.zeros((len(block), width), dtype=np.int64)
        for row, some in enumerate(paths):
            for entry, path in enumerate(some):
                table[row, entry, : len(path)] = path
                last[row, entry] = len(path) - 1
        size = self.parts.policy.no_repeat_ngram_size
        flat = torch.from_numpy(table).view(-1, longest)
        listed = forbidden_by_ngrams(flat, torch.from_numpy(last).view(-1, 1), size)
        return listed.view(len(block), width, longest).to(self.device)

    def _advance(self, row: int) -> int:
        try:
            return self.sentences[row].advance()
        except NoTokenError as error:
            models = self.parts.verifier.models
            raise no_token(models, error.broken, error.step, self.origin[row]) from None

    def _book(self, steps: Sequence[int], seconds: float) -> None:
        """Take note of a pass that was done."""
        stats = self.stats
        stats.iterations += len(steps)
        stats.emitted += sum(steps)
        for row, sentence in enumerate(self.sentences):
            self.rounds[row] += 1
            if self.parts.options.keep_trace:
                position = sum(len(part.emitted) for part in self.traces[row])
                emitted = sentence.newly_agreed()
                if sentence.done:
                    emitted = self._tokens(_ranked(sentence, self.parts.options)[0])[position:]
                timing = (seconds, 0.0, seconds)
                self.traces[row].append(
                    Iteration([], 0, emitted, emitted, position, 0, len(steps), timing)
                )

    def _leave(self) -> None:
        """Let the sentences leave that are done."""
        keep = [row for row, sentence in enumerate(self.sentences) if not sentence.done]
        if len(keep) == len(self.sentences):
            return
        for row, sentence in enumerate(self.sentences):
            if sentence.done:
                self._finish(row, sentence)
        used = [sentence.tree.slots for sentence in self.sentences]
        for name in ("sentences", "origin", "rounds", "traces"):
            values = getattr(self, name)
            setattr(self, name, [values[row] for row in keep])
        if not keep:
            return
        rows = torch.tensor(keep, device=self.device)
        self.session.commit(torch.tensor(used, device=self.device), used)
        self.session.select(rows, keep)
        if self.prefix is not None:
            self.prefix = self.prefix.index_select(0, rows)

    def _finish(self, row: int, sentence: Sentence) -> None:
        """Store the hypotheses of a sentence that is done."""
        options = self.parts.options
        with torch.inference_mode(False):  # callers may write to the tensors of a hypothesis
            self.finished[self.origin[row]] = [
                hypothesis(
                    torch.tensor(self._tokens(one), device=self.device),
                    self._positional_scores(one),
                    self.rounds[row],
                    options.normalize_scores,
                    options.len_penalty,
                    self.traces[row] if number == 0 else [],
                )
                for number, one in enumerate(_ranked(sentence, options))
            ]
        self.stats.sentences += 1

    def _tokens(self, one: Ended) -> List[int]:
        return [node.token for node in one.node.path()] + [self.rules.eos]

    def _positional_scores(self, one: Ended) -> Tensor:
        totals = [node.score for node in one.node.path()] + [one.score]
        summed = torch.tensor(totals, dtype=torch.float32)
        return torch.cat([summed[:1], summed[1:] - summed[:-1]]).to(self.device)

    def close(self) -> None:
        """Return the caches, and stop the clock."""
        self.session.close()
        self.stats.total_seconds = time.perf_counter() - self.started


def _ranked(sentence: Sentence, options: Any) -> List[Ended]:
    """The hypotheses of a sentence, best first; equal ones as they ended."""

    def score(one: Ended) -> float:
        length = (one.node.depth + 1) ** options.len_penalty
        return one.score / length if options.normalize_scores else one.score

    return sorted(sentence.ended, key=score, reverse=True)
