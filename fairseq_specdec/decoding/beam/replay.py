"""fairseq's beam search of one sentence, as a replay over known distributions."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import NamedTuple

import numpy as np

Best = tuple[np.ndarray, np.ndarray]
"""Log-probabilities float32 [k] of the likeliest next tokens, falling, and the tokens, long [k]."""


@dataclass(eq=False, slots=True)
class Node:
    """A prefix of outputs: its last token, and the node of the tokens before."""

    token: int  # the start symbol for the root
    parent: Node | None = None  # None for the root
    depth: int = 0  # tokens after the start symbol; the place of ``token`` in the position table
    score: float = 0.0  # the prefix's log-probability; known once it was live
    # where the caches hold the token's keys and values; -1 before it is scored and once dropped
    slot: int = -1
    seen: int = 0  # the slots of the prefix, itself included, as bits
    best: Best | None = None  # what may follow; None before it is scored
    # the nodes that follow it and are not dropped, by token
    children: dict[int, Node] = field(default_factory=dict)

    def path(self) -> list[Node]:
        """The nodes after the root, up to this one."""
        nodes = []
        node: Node = self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    @property
    def tokens(self) -> list[int]:
        """The tokens after the start symbol."""
        return [node.token for node in self.path()]

    def child(self, token: int) -> Node:
        """The node of this prefix and one token more, made if it is not there."""
        if token not in self.children:
            self.children[token] = Node(token, self, self.depth + 1)
        return self.children[token]


class BeamRules(NamedTuple):
    """What a replay needs to know besides distributions."""

    beam: int  # N, hypotheses
    eos: int  # </s>
    max_len: int  # the step at which only </s> may follow


class Hypothesis(NamedTuple):
    """A hypothesis that ended, or one that is live, of which only the tokens are asked for."""

    tokens: list[int]  # before </s>
    totals: list[float]  # log-probabilities of the first 1, 2, ... tokens; </s> is the last


class NoTokenError(Exception):
    """No hypothesis of a sentence can go on. ``args``: whether the verifier's output was NaN, how
    many tokens were decoded, and the sentence's row."""


def grown(
    live: Sequence[tuple[Node, Best]], rules: BeamRules
) -> tuple[list[tuple[Node, float]], list[tuple[Node, int, float]]]:
    """The step of ``BeamSearch.step``: 2 N candidates, </s> only from the first N.

    Args:
        live: prefixes, and what may follow each; of equal candidates those of the first prefix come
            first.

    Returns:
        The prefixes that end, with their scores; the prefixes that go on, at most N, with their
        next tokens and scores. Both in falling order.
    """
    flat = np.concatenate([best[0] + best[0].dtype.type(node.score) for node, best in live])
    choices = [(node, token) for node, best in live for token in best[1].tolist()]
    ending: list[tuple[Node, float]] = []
    growth: list[tuple[Node, int, float]] = []
    for rank, at in enumerate(np.argsort(-flat, kind="stable")[: 2 * rules.beam].tolist()):
        (node, token), score = choices[at], float(flat[at])
        if not score > float("-inf"):
            break
        if token == rules.eos:
            if rank < rules.beam:
                ending.append((node, score))
        elif len(growth) < rules.beam:
            growth.append((node, token, score))
    return ending, growth


@dataclass(eq=False)
class Sentence:
    """The hypotheses of one sentence (``SequenceGenerator`` of fairseq, ``BeamSearch.step``).

    A step is decided once all live nodes are scored. Those of a forced prefix are scored together,
    and several steps follow one another without a pass of the verifier.

    All slots of a sentence lie in one row of the caches. Those of dropped nodes are used again, so
    that nothing is moved.
    """

    rules: BeamRules
    start: InitVar[int]
    row: int = 0  # of the batch
    prefix: Sequence[int] = ()  # forced first tokens; -1 where any may stand
    root: Node = field(init=False)  # the start symbol; it stays, in slot 0
    live: list[Node] = field(init=False)  # the hypotheses that have not ended, best first
    ended: list[Hypothesis] = field(default_factory=list)  # the others, as they ended
    done: bool = False  # nothing will follow
    passes: int = 0  # of the verifier so far
    steps: int = 0  # of the search so far: the tokens of every live hypothesis
    scored: int = 0  # nodes so far
    drafted = used = 0  # only the library looks ahead
    slots: int = 0  # of its row in the caches, that were ever taken
    _free: list[int] = field(default_factory=list)  # a heap of slots

    def __post_init__(self, start: int) -> None:
        self.root = Node(start)
        self.live = [self.root]

    def _forced_after(self, node: Node) -> int:
        """The token of the prefix that must follow; -1 where any may."""
        inside = node.depth < min(len(self.prefix), self.rules.max_len)
        return self.prefix[node.depth] if inside else -1

    def waiting(self) -> list[Node]:
        """The nodes to score before ``advance`` can continue: live ones, and all that the
        prefix adds to these, each after its parent."""
        nodes = list(self.live)
        for live in self.live:
            node, token = live, self._forced_after(live)
            while token >= 0 and token != self.rules.eos:
                node = node.child(token)
                nodes.append(node)
                token = self._forced_after(node)
        return [node for node in nodes if node.best is None]

    def advance(self) -> None:
        """Do all the steps that the known distributions decide, after a pass. Raises NoTokenError:
        no live hypothesis can go on."""
        self.passes += 1
        while not self.done and self._step():
            self.steps += 1

    def _step(self) -> bool:
        """One step, if it is decided."""
        live, rules = self.live, self.rules
        known = [(node, node.best) for node in live if node.best is not None]
        if len(known) < len(live):
            return False
        if np.isnan(np.concatenate([best[0] for _, best in known])).any():
            raise NoTokenError(True, self.steps, self.row)
        ending, growth = grown(known, rules)
        self._end(ending)
        if self.done:
            return True
        if not growth:
            raise NoTokenError(False, self.steps, self.row)
        self.live = []
        for node, token, score in growth:
            child = node.child(token)
            child.score = score
            self.live.append(child)
        self.follow(live, self.live)
        return True

    def _end(self, ending: list[tuple[Node, float]]) -> None:
        rules, best = self.rules, self.live[0]
        if ending and self._forced_after(best) == rules.eos:
            # Stock gives all N hypotheses what the first one has.
            ending = [one for one in ending if one[0] is best] * rules.beam
        for node, score in ending[: rules.beam - len(self.ended)]:
            totals = [one.score for one in node.path()]
            self.ended.append(Hypothesis(node.tokens, [*totals, score]))
        self.done = len(self.ended) == rules.beam or (bool(ending) and self.steps >= rules.max_len)

    def place(self, nodes: Sequence[Node]) -> None:
        """Give slots to nodes that have none; parents come before their children."""
        for node in nodes:
            if not self._free:
                self._free.append(self.slots)
                self.slots += 1
            node.slot = heapq.heappop(self._free)
            before = 0 if node.parent is None else node.parent.seen
            node.seen = before | 1 << node.slot

    def follow(self, old: Sequence[Node], new: Sequence[Node]) -> None:
        """Drop what does not lead from ``old`` live nodes to ``new`` ones, some of their children,
        or follow those."""
        kept, dropped = set(new), []
        for node in old:
            for child in list(node.children.values()):
                if child not in kept:
                    dropped.append(node.children.pop(child.token))
            while not node.children and node.parent is not None:
                dropped.append(node.parent.children.pop(node.token))
                node = node.parent
        for node in dropped:  # which grows
            dropped.extend(node.children.values())
            if node.slot >= 0:
                heapq.heappush(self._free, node.slot)
                node.slot = -1
