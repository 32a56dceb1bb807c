"""Which prefixes a beam search will look at next: the search run ahead on predictions."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from .prefix_tree import Best, Node
from .replay import Sentence

# Weight of the newest pass in the share of copied tokens, and the share from which drafts pay.
_NEWEST = 0.3
_SURE = 0.8

# Log-probability of a token that is expected since the source has it.
_COPIED = -0.1

# Longest suffix that two prefixes are compared by.
_LONGEST = 4

Ranked = list[tuple[float, int]]
"""Log-probabilities of the likeliest next tokens, falling, and the tokens."""


class Reach(NamedTuple):
    """How far to look.

    Attributes:
        steps: most steps of the search.
        beams: most prefixes to score in a pass, in multiples of the beam, those included that the
            search waits for.
        min_copy_rate: draft only while the verifier's first choice was the next token of the source
            in so large a share of the last passes, 0 to 1. Then the rest of the source is drafted
            after the best hypothesis, too.
        first_steps: steps of the first passes: where that share is not known yet, and where the
            rest of the source is drafted for the first time.
    """

    steps: int
    beams: int
    min_copy_rate: float = 0.0
    first_steps: int = 0


NOTHING = Reach(0, 0)


def reach_with_torch(rows: int, on_gpu: bool) -> Reach:
    """For torch operators, where a pass costs more than what it computes.

    Args:
        rows: sentences of the batch.
        on_gpu: with copied drafts a sentence alone took 0.8 of the time there, batches of 8 1.4 and
            of 16 to 32 3.3 times it (an H200, fp16, CUDA graphs).
    """
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
        self._by_suffix: dict[tuple[int, ...], list[Node]] = {}
        self._fresh: list[Node] = []  # scored, and not among those yet
        self._right: float | None = None  # running mean
        self._guess: tuple[Node | None, int | None] = None, None
        # Before the rest of the source is scored, what comes later is hardly known.
        self._far = reach.first_steps or reach.steps
        self._numbers: dict[int, tuple[Best, Ranked]] = {}
        self._after: dict[int, list[int]] = {}  # the places after each token of the source
        for at, token in enumerate(source[:-1], start=1):
            self._after.setdefault(token, []).append(at)

    def learn(self, nodes: Sequence[Node]) -> None:
        """These were scored."""
        node, guess = self._guess
        if node is not None and node.best is not None:
            first = self._right is None
            self._judge(node, guess)
            if first:  # all of the first draft is a copy
                for node, after in zip(nodes[1:], nodes[2:]):
                    if after.parent is node:
                        self._judge(node, after.token)
            self._guess = None, None
        self._fresh += nodes

    def _like(self, suffix: tuple[int, ...]) -> list[Node]:
        """The prefixes that were scored and end so."""
        for node in self._fresh:  # where nothing is drafted nobody asks
            end = _suffix(node)
            for size in range(1, len(end) + 1):
                self._by_suffix.setdefault(end[:size], []).append(node)
        self._fresh.clear()
        return self._by_suffix.get(suffix, [])

    def _judge(self, node: Node, guess: int | None) -> None:
        """Count whether this token is the likeliest one after a prefix that was scored."""
        assert node.best is not None
        right = float(int(node.best[1][0]) == guess)
        before = right if self._right is None else self._right
        self._right = before + _NEWEST * (right - before)

    def draft(self, sentence: Sentence) -> list[Node]:
        """The prefixes to score, each after its parent: those that the sentence waits for first."""
        if not self._copies(sentence.live[0]):
            return self._ahead(sentence, self.reach.first_steps if self._right is None else 0)
        wanted = self._ahead(sentence, self._far)
        self._far = self.reach.steps
        return self._rest(sentence, wanted) if self.reach.min_copy_rate else wanted

    def _ahead(self, sentence: Sentence, steps: int) -> list[Node]:
        """The prefixes that the next steps of the search are expected to come to."""
        rules = sentence.rules
        live = [(node, node.score) for node in sentence.live]
        wanted = [node for node in sentence.live if node.best is None]
        room = rules.beam - len(sentence.ended)
        for _ in range(min(steps, rules.max_len - sentence.step)):
            growth, ending = self._grown(live, rules.beam, rules.eos, rules.candidates)
            room -= ending
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
        known = set(map(id, wanted))
        limit = self.reach.beams * rules.beam
        last = min(rules.max_len, len(self.source))
        while node.depth < last and len(wanted) < limit:
            (_, token), *_ = self._predicted(node)
            if token == rules.eos:
                break
            node = node.child(token)
            if node.best is None and id(node) not in known:
                wanted.append(node)
        return wanted

    def _copies(self, best: Node) -> bool:
        """Whether the output is a copy of the source, by what followed the best hypotheses so far;
        what follows the present one is the next to be judged."""
        if self.reach.min_copy_rate == 0:
            return True
        if best.best is None:
            self._guess = best, self._copied(best)
        return self._right is not None and self._right >= self.reach.min_copy_rate

    def _grown(
        self, live: list[tuple[Node, float]], beam: int, eos: int, count: int
    ) -> tuple[list[tuple[Node, int, float]], int]:
        """(the likeliest N prefixes of one token more, how many hypotheses end)."""
        candidates: list[tuple[float, Node, int]] = []
        least = float("-inf")  # of the first ``count`` so far
        for node, score in live:
            for value, token in self._predicted(node)[:count]:
                if value + score < least:
                    break
                candidates.append((value + score, node, token))
            candidates.sort(key=itemgetter(0), reverse=True)
            if len(candidates) >= count:
                least = candidates[count - 1][0]
        first = candidates[:count]
        ending = sum(token == eos for _, _, token in first[:beam])
        going = [(node, token, score) for score, node, token in first if token != eos]
        return going[:beam], ending

    def _predicted(self, node: Node) -> Ranked:
        """What may follow a prefix."""
        if node.best is not None:
            return self._ranked(node.best)
        suffix = _suffix(node)
        for size in range(len(suffix), 0, -1):
            scored = self._like(suffix[:size])
            if scored:
                nearest = min(scored, key=lambda one: abs(one.depth - node.depth))
                assert nearest.best is not None
                return self._ranked(nearest.best)
        token = self._copied(node)
        return [] if token is None else [(_COPIED, token)]

    def _ranked(self, best: Best) -> Ranked:
        """A distribution as Python numbers."""
        known = self._numbers.get(id(best))
        if known is None:
            ranked = list(zip(best[0].tolist(), best[1].tolist()))
            known = self._numbers[id(best)] = best, ranked  # kept: the number stays its own
        return known[1]

    def _copied(self, node: Node) -> int | None:
        """The source token after the place that this prefix has reached: where the longest suffix
        ends the same, nearest to the prefix's own length."""
        suffix, source, depth = _suffix(node), self.source, node.depth
        if not source:
            return None
        # Where nothing ends the same: the place of the same number, or the last one.
        places = [*self._after.get(suffix[0], ()), min(depth, len(source) - 1)]

        def likeness(at: int) -> tuple[int, int, int]:
            size = 0
            while size < len(suffix) and size < at and source[at - 1 - size] == suffix[size]:
                size += 1
            return size, -abs(at - depth), -at

        return source[max(places, key=likeness)]


def _suffix(node: Node) -> tuple[int, ...]:
    """The last tokens of a prefix, the last one first."""
    suffix: list[int] = []
    here: Node | None = node
    while here is not None and len(suffix) < _LONGEST:
        suffix.append(here.token)
        here = here.parent
    return tuple(suffix)
