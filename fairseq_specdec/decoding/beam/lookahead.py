"""Which prefixes a beam search will look at next: the search run ahead on predictions."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .prefix_tree import Best, Node
from .replay import Sentence

# Weight of the newest pass in the share of copied tokens, and the share from which drafts pay.
_NEWEST = 0.3
_SURE = 0.6

# Longest suffix that two prefixes are compared by, and the shortest that says more than a drafter.
_LONGEST = 4
_TELLING = 2


class Reach(NamedTuple):
    """How far to look.

    Attributes:
        steps: most steps of the search.
        beams: most prefixes to score in a pass, in multiples of the beam, those included that the
            search waits for.
        sure: draft only while the verifier's first choice was the next token of the source in so
            large a share of the last passes, 0 to 1.
    """

    steps: int
    beams: int
    sure: float = 0.0


NOTHING = Reach(0, 0)


def reach_with_torch(rows: int, runs_model: bool) -> Reach:
    """For torch operators, where a pass costs more than what it computes.

    Args:
        rows: sentences of the batch.
        runs_model: drafts take passes of a model, so that fewer of them pay.
    """
    if rows > 20:
        return NOTHING
    return Reach(4, max(1, 5 // rows)) if runs_model else Reach(16, 40 // rows, _SURE)


def reach_of_budget(budget: int, rows: int, beam: int) -> Reach:
    """For ``--draft-budget``.

    Args:
        budget: prefixes of all sentences together that a pass may score though nothing waits for
            them; 0 for any number.
        rows: sentences of the batch.
        beam: N.
    """
    return Reach(16, 1 + (budget // (rows * beam) if budget else 16))


class Lookahead:
    """Drafts of one sentence. What follows a prefix that is not scored is predicted: as what
    follows a scored prefix with the same last tokens, else as the drafter's forecast or the next
    token of the source. The search is run ahead on that, and the prefixes that it comes to live on
    are the draft. They are right as long as the predictions rank the first N candidates right.

    Args:
        source: token ids that the output may copy, without </s>; empty for none.
        reach: how far to look.
    """

    def __init__(self, source: Sequence[int], reach: Reach) -> None:
        self.source = source
        self.reach = reach
        self._by_suffix: Dict[Tuple[int, ...], List[Node]] = {}
        self._forecast: Dict[int, Best] = {}
        self._right: Optional[float] = None  # running mean
        self._guess: Tuple[Optional[Node], Optional[int]] = None, None

    def learn(self, nodes: Sequence[Node]) -> None:
        """These were scored."""
        node, guess = self._guess
        if node is not None and node.best is not None:
            right = float(int(node.best[1][0]) == guess)
            before = right if self._right is None else self._right
            self._right = before + _NEWEST * (right - before)
            self._guess = None, None
        for node in nodes:
            suffix = _suffix(node)
            for size in range(1, len(suffix) + 1):
                self._by_suffix.setdefault(suffix[:size], []).append(node)

    def foresee(self, depth: int, log_probs: np.ndarray, tokens: np.ndarray) -> None:
        """A drafter's forecast; it replaces the one before.

        Args:
            depth: tokens of the prefix that it is made after.
            log_probs: float32 [K, M], falling.
            tokens: long [K, M].
        """
        self._forecast = {depth + step: pair for step, pair in enumerate(zip(log_probs, tokens))}

    def draft(self, sentence: Sentence) -> List[Node]:
        """The prefixes to score, each after its parent: those that the sentence waits for first."""
        if not self._copies(sentence.live[0]):
            return sentence.waiting()
        rules = sentence.rules
        live = [(node, node.score) for node in sentence.live]
        wanted = [node for node in sentence.live if node.best is None]
        known = set(map(id, wanted))
        room = rules.beam - len(sentence.ended)
        for _ in range(self.reach.steps):
            growth, ending = self._grown(live, rules.beam, rules.eos, rules.candidates)
            room -= ending
            if room <= 0 or not growth or live[0][0].depth + 1 > rules.max_len:
                break
            live = [(node.child(token), score) for node, token, score in growth]
            fresh = [node for node, _ in live if node.best is None and id(node) not in known]
            if len(wanted) + len(fresh) > self.reach.beams * rules.beam:
                break
            wanted += fresh
            known.update(map(id, fresh))
        return wanted

    def _copies(self, best: Node) -> bool:
        """Whether the output is a copy of the source, by what followed the best hypotheses so far;
        what follows the present one is the next to be judged."""
        if self.reach.sure == 0:
            return True
        if best.best is None:
            self._guess = best, self._copied(best)
        return self._right is not None and self._right >= self.reach.sure

    def _grown(
        self, live: List[Tuple[Node, float]], beam: int, eos: int, count: int
    ) -> Tuple[List[Tuple[Node, int, float]], int]:
        """(the likeliest N prefixes of one token more, how many hypotheses end)."""
        found = []
        for node, score in live:
            values, tokens = node.best if node.best is not None else self._predicted(node)
            found += [
                (float(value) + score, node, int(token))
                for value, token in zip(values[:count], tokens[:count])
            ]
        found.sort(key=lambda one: -one[0])
        first = found[:count]
        ending = sum(token == eos for _, _, token in first[:beam])
        going = [(node, token, score) for score, node, token in first if token != eos]
        return going[:beam], ending

    def _predicted(self, node: Node) -> Best:
        suffix = _suffix(node)
        forecast = self._forecast.get(node.depth)
        for size in range(len(suffix), 0, -1):
            if forecast is not None and size < _TELLING:
                return forecast
            scored = self._by_suffix.get(suffix[:size])
            if scored:
                nearest = min(scored, key=lambda one: abs(one.depth - node.depth))
                assert nearest.best is not None
                return nearest.best
        token = self._copied(node)
        if token is None:
            return np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.int64)
        return np.array([-0.1], dtype=np.float32), np.array([token])

    def _copied(self, node: Node) -> Optional[int]:
        """The source token after the place that this prefix has reached: where the longest suffix
        ends the same, nearest to the prefix's own length."""
        suffix, source = _suffix(node), self.source
        best: Tuple[int, int, Optional[int]] = (0, 0, None)
        for at in range(len(source)):
            size = 0
            while size < len(suffix) and size < at and source[at - 1 - size] == suffix[size]:
                size += 1
            size += size == at == node.depth  # from the very beginning
            best = max(best, (size + 1, -abs(at - node.depth), source[at]), key=lambda x: x[:2])
        return best[2]


def _suffix(node: Node) -> Tuple[int, ...]:
    """The last tokens of a prefix, the last one first."""
    found: List[int] = []
    here: Optional[Node] = node
    while here is not None and len(found) < _LONGEST:
        found.append(here.token)
        here = here.parent
    return tuple(found)
