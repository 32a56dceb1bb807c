"""Which prefixes a beam search will look at next: the search run ahead on predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .replay import Best, Node, Sentence, grown

# Weight of the newest pass in the share of copied tokens, and the share from which drafts pay.
_NEWEST = 0.3
_SURE = 0.8

# Log-probability of a token that is expected since the source has it.
_COPIED = -0.1

# Longest suffix that two prefixes are compared by.
_LONGEST = 4


class Reach(NamedTuple):
    """How far to look."""

    steps: int  # most steps of the search
    # most prefixes to score in a pass, in multiples of the beam, those included that the search
    # waits for
    beams: int
    # draft only while the verifier's first choice was the next token of the source in so large a
    # share of the last passes, 0 to 1; then the rest of the source is drafted after the best
    # hypothesis, too
    min_copy_rate: float = 0.0
    # steps of the first passes: where that share is not known yet, and where the rest of the source
    # is drafted for the first time
    first_steps: int = 0


NOTHING = Reach(0, 0)


def reach_with_torch(rows: int, on_gpu: bool) -> Reach:
    """For ``rows`` sentences on torch operators, where a pass costs more than what it computes. On
    a GPU, with copied drafts, a sentence alone took 0.8 of the time, batches of 8 1.4 and of 16 to
    32 3.3 times it (an H200, fp16, CUDA graphs)."""
    if rows > (1 if on_gpu else 20):
        return NOTHING
    return Reach(8, 40 // rows, _SURE, 3)


def reach_of_budget(budget: int, rows: int, beam: int) -> Reach:
    """For ``--draft-budget``. ``budget``: prefixes of all sentences together that a pass may score
    though nothing waits for them; 0 for any number."""
    return Reach(16, 1 + (budget // (rows * beam) if budget else 16))


class Lookahead:
    """Drafts of one sentence. What follows a prefix that is not scored is predicted: as what
    follows a scored prefix with the same last tokens, else as the next token of the source. The
    search is run ahead on that, and the prefixes that it comes to live on are the draft. They are
    right as long as the predictions rank the first N candidates right.

    Args:
        source: token ids that the output may copy, without </s>; empty for none.
        reach: how far to look.
    """

    def __init__(self, source: Sequence[int], reach: Reach) -> None:
        self.source = source
        self.reach = reach
        self._like: dict[tuple[int, ...], list[tuple[int, Best]]] = {}  # what was scored, by suffix
        self._right: float | None = None  # running mean
        # Before the rest of the source is scored, what comes later is hardly known.
        self._far = reach.first_steps or reach.steps

    def learn(self, sentence: Sentence, nodes: Sequence[Node]) -> None:
        """These were scored for a sentence, which did not go on since."""
        best = sentence.live[0]
        if nodes[0] is best and not sentence.inside_prefix:
            judged = [(best, self._copied(best))]
            if self._right is None:  # all of the first draft is a copy
                pairs = zip(nodes[1:], nodes[2:])
                judged += [(node, [after.token]) for node, after in pairs if after.parent is node]
            for node, guess in judged:
                assert node.best is not None
                right = float(node.best[1][:1].tolist() == guess)
                before = right if self._right is None else self._right
                self._right = before + _NEWEST * (right - before)
        for node in nodes:
            assert node.best is not None
            end = _suffix(node)
            for size in range(1, len(end) + 1):
                self._like.setdefault(end[:size], []).append((node.depth, node.best))

    def draft(self, sentence: Sentence) -> list[Node]:
        """The prefixes to score, each after its parent: those that the sentence waits for first."""
        least = self.reach.min_copy_rate
        if least and (self._right is None or self._right < least):
            return self._ahead(sentence, self.reach.first_steps if self._right is None else 0)
        wanted = self._ahead(sentence, self._far)
        self._far = self.reach.steps
        return self._rest(sentence, wanted) if least else wanted

    def _ahead(self, sentence: Sentence, steps: int) -> list[Node]:
        """The prefixes that the next steps of the search are expected to come to."""
        rules = sentence.rules
        live = [(node, node.score) for node in sentence.live]
        wanted = [node for node in sentence.live if node.best is None]
        room = rules.beam - len(sentence.ended)
        for _ in range(min(steps, rules.max_len - sentence.steps)):
            known = [self._predicted(node) for node, _ in live]
            predicted = [(*one, (best[0].astype(float), best[1])) for one, best in zip(live, known)]
            ending, growth = grown(predicted, rules)
            room -= len(ending)
            if room <= 0 or not growth:
                break
            live = [(node.child(token), score) for node, token, score in growth]
            fresh = [node for node, _ in live if node.best is None]
            if len(wanted) + len(fresh) > self.reach.beams * rules.beam:
                break
            wanted += fresh
        return wanted

    def _rest(self, sentence: Sentence, wanted: list[Node]) -> list[Node]:
        """The same, and the best hypothesis followed to the end of the source: most of it will be
        live, and what is known of it predicts what follows the others."""
        rules, node = sentence.rules, sentence.live[0]
        known, limit = set(wanted), self.reach.beams * rules.beam
        last = min(rules.max_len, len(self.source))
        while node.depth < last and len(wanted) < limit:
            token = int(self._predicted(node)[1][0])
            if token == rules.eos:
                break
            node = node.child(token)
            if node.best is None and node not in known:
                wanted.append(node)
        return wanted

    def _predicted(self, node: Node) -> Best:
        """What may follow a prefix."""
        if node.best is not None:
            return node.best
        suffix = _suffix(node)
        for size in range(len(suffix), 0, -1):
            if like := self._like.get(suffix[:size]):
                return min(like, key=lambda one: abs(one[0] - node.depth))[1]
        copied = self._copied(node)
        return np.full(len(copied), _COPIED, dtype=np.float32), np.array(copied, dtype=np.int64)

    def _copied(self, node: Node) -> list[int]:
        """The source token after the place that this prefix has reached: where the longest suffix
        ends the same, nearest to the prefix's own length. Nothing without a source."""
        suffix, source, depth = _suffix(node), self.source, node.depth
        if not source:
            return []
        places = [at for at in range(1, len(source)) if source[at - 1] == node.token]
        # Where nothing ends the same: the place of the same number, or the last one.
        places.append(min(depth, len(source) - 1))

        def likeness(at: int) -> tuple[int, int, int]:
            size = 0
            while size < len(suffix) and size < at and source[at - 1 - size] == suffix[size]:
                size += 1
            return size, -abs(at - depth), -at

        return [source[max(places, key=likeness)]]


def _suffix(node: Node) -> tuple[int, ...]:
    """The last tokens of a prefix, the last one first."""
    suffix: list[int] = []
    here: Node | None = node
    while here is not None and len(suffix) < _LONGEST:
        suffix.append(here.token)
        here = here.parent
    return tuple(suffix)
