"""Beam search on any backend: passes of a verifier's session, and a replay in Python."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fairseq_specdec.engine.ngrams import forbidden_by_ngrams
from fairseq_specdec.engine.state import Layout
from fairseq_specdec.engine.transfer import read_back, to_device
from fairseq_specdec.engine.transformer import Ensemble

from ..policy import DecodingConstraints, LengthLimits
from .beams import EndedHypothesis, Prefix, Progress
from .lookahead import Lookahead
from .prefix_tree import Node, visible
from .replay import BeamRules, Sentence


class TorchBeams:
    """See ``Beams``. An ensemble and n-gram blocking are served here alone.

    Args:
        prefix: long [B, P] forced first tokens, padded on the right; or None.
        like: a tensor with B rows on the device to use.
    """

    def __init__(
        self,
        session: Ensemble,
        policy: DecodingConstraints,
        rules: BeamRules,
        start: int,
        prefix: Tensor | None,
        limits: LengthLimits,
        like: Tensor,
        lookaheads: Sequence[Lookahead] = (),
    ) -> None:
        self.session = session
        self.policy = policy
        self.rules = rules
        self.start = start
        self.prefix = prefix
        self.limits = limits
        self.device = like.device
        self.lookaheads = lookaheads
        forced = [()] * like.size(0)
        if prefix is not None:
            forced = prefix.masked_fill(prefix == policy.pad, -1).tolist()
        of_rows = [rules._replace(max_len=limit) for limit in limits.listed(like.size(0))]
        self.sentences = [
            Sentence(own, start, row, one) for row, (own, one) in enumerate(zip(of_rows, forced))
        ]
        self._rows = list(range(like.size(0)))  # that the session has

    def run(self, rows: Sequence[int], max_passes: int) -> list[Progress]:
        for _ in range(max_passes):
            live = [self.sentences[row] for row in rows if not self.sentences[row].done]
            if not live:
                break
            self._select(live)
            block = [self._drafted(sentence) for sentence in live]
            for sentence, nodes in zip(live, block):
                sentence.draft = list(nodes[len(sentence.waiting()) :])
                sentence.scored += len(nodes)
                sentence.drafted += len(sentence.draft)
            self._score(block, live)
            for sentence, nodes in zip(live, block):
                if self.lookaheads:
                    self.lookaheads[sentence.row].learn(nodes)
                sentence.advance()
        return [self.sentences[row].progress() for row in rows]

    def _drafted(self, sentence: Sentence) -> list[Node]:
        """The nodes that a sentence waits for, and those that are likely to come next."""
        if self.lookaheads and not sentence.inside_prefix:
            return self.lookaheads[sentence.row].draft(sentence)
        return sentence.waiting()

    def agreed(self, row: int) -> list[int]:
        return self.sentences[row].agreed()

    def live(self, row: int) -> list[Prefix]:
        return list(map(_prefix, self.sentences[row].live))

    def draft(self, row: int) -> list[Prefix]:
        return list(map(_prefix, self.sentences[row].draft))

    def ended(self, row: int) -> list[EndedHypothesis]:
        hypotheses = []
        for one in self.sentences[row].ended:
            path = one.node.path()
            totals = [node.score for node in path] + [one.score]
            hypotheses.append(EndedHypothesis([node.token for node in path], totals))
        return hypotheses

    def _select(self, live: Sequence[Sentence]) -> None:
        """Let the sentences leave the session that are done."""
        if len(live) == len(self._rows):
            return
        keep = [at for at, row in enumerate(self._rows) if not self.sentences[row].done]
        rows = to_device(keep, self.device)
        self.session.keep(rows, len(keep))
        self.limits = self.limits.select(rows)
        if self.prefix is not None:
            self.prefix = self.prefix.index_select(0, rows)
        self._rows = [self._rows[at] for at in keep]

    def _score(self, block: Sequence[Sequence[Node]], live: Sequence[Sentence]) -> None:
        """Learn what may follow each of the nodes, some of every sentence."""
        for nodes, sentence in zip(block, live):
            sentence.tree.place(nodes)
        upto = max(sentence.tree.slots for sentence in live) + 1
        width, upto = self.session.sessions[0].padded(max(map(len, block)), upto)
        numbers = np.zeros((3, len(block), width), dtype=np.int64)
        for row, (nodes, sentence) in enumerate(zip(block, live)):
            count = len(nodes)
            numbers[0, row, :count] = [node.token for node in nodes]
            numbers[1, row, :count] = [node.depth for node in nodes]
            numbers[2, row, :count] = [node.slot for node in nodes]
            # What stands in the empty entries is written where nobody looks.
            numbers[2, row, count:] = sentence.tree.slots
        seen = visible(block, width, upto)
        tokens, positions, slots = to_device(torch.from_numpy(numbers), self.device).unbind(0)
        layout = Layout(positions, slots, upto, seen=to_device(torch.from_numpy(seen), self.device))
        scores = self.session.score(tokens, layout)
        steps = [node.depth for nodes in block for node in nodes]
        listed = self._repeated(block, width) if self.policy.no_repeat_ngram_size else None
        reach = (min(steps), max(steps))
        edits = self.policy.edits_at(positions, reach, self.limits, self.prefix, listed)
        scores.edit(edits)
        log_probs, best = read_back(*scores.topk(self.rules.candidates))
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
        flat = torch.from_numpy(table).view(-1, longest)
        ends = torch.from_numpy(last).view(-1, 1)
        listed = forbidden_by_ngrams(flat, ends, self.policy.no_repeat_ngram_size)
        return to_device(listed.view(len(block), width, longest), self.device)


def _prefix(node: Node) -> Prefix:
    return Prefix([step.token for step in node.path()], node.best is not None, node.slot >= 0)
