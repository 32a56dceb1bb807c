"""fairseq's beam search of one sentence, as a replay over known distributions."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .beams import Progress
from .prefix_tree import Node, PrefixTree


class BeamRules(NamedTuple):
    """What a replay needs to know besides distributions."""

    beam: int  # N, hypotheses
    eos: int  # </s>
    max_len: int  # the step at which only </s> may follow
    # the largest log-probability that constraints leave: above 0 where ``--unkpen`` is negative
    max_log_prob: float = 0.0

    @property
    def candidates(self) -> int:
        """2 N, the candidates of a step (and as many of one node can be among them)."""
        return 2 * self.beam


class Ended(NamedTuple):
    """A hypothesis that ended."""

    node: Node
    score: float


class NoTokenError(Exception):
    """No hypothesis of a sentence can go on.

    Attributes:
        broken: the verifier's output was NaN.
        step: tokens decoded.
        row: the sentence.
    """

    def __init__(self, broken: bool, step: int, row: int) -> None:
        super().__init__(broken, step, row)
        self.broken = broken
        self.step = step
        self.row = row


class Sentence:
    """The hypotheses of one sentence (``SequenceGenerator`` of fairseq, ``BeamSearch.step``).

    A step is decided once all live nodes that matter are scored. So several steps may follow one
    another without a pass of the verifier: the result is stock's whatever was drafted.

    Attributes:
        tree: prefixes.
        live: the hypotheses that have not ended, in falling order of their scores.
        ended: those that have, in the order in which they did.
        done: nothing will follow.
        steps: done so far.
        passes: of the verifier so far.
        scored: nodes so far.
        draft: nodes that the last pass scored though nothing waited for them.
        drafted: nodes that were scored though nothing waited for them.
        used: those of them that were live later.

    Args:
        prefix: forced first tokens; -1 where any may stand.
    """

    def __init__(
        self, rules: BeamRules, start: int, row: int = 0, prefix: Sequence[int] = ()
    ) -> None:
        self.rules = rules
        self.row = row
        self.prefix = prefix
        self.tree = PrefixTree(start)
        self.live: list[Node] = [self.tree.root]
        self.ended: list[Ended] = []
        self.done = False
        self.draft: list[Node] = []
        self.steps = self.passes = self.scored = self.drafted = self.used = 0
        self._agreed = self.tree.root

    @property
    def step(self) -> int:
        """Tokens that every live hypothesis has."""
        return self.live[0].depth

    def progress(self) -> Progress:
        """How far it is."""
        counts = (self.passes, self.steps, self.scored, self.drafted, self.used)
        return Progress(self.done, *counts)

    @property
    def inside_prefix(self) -> bool:
        """Whether the next token is forced by the prefix."""
        return self._forced_after(self.live[0]) >= 0

    def _forced_after(self, node: Node) -> int:
        """The token of the prefix that must follow; -1 where any may."""
        inside = node.depth < min(len(self.prefix), self.rules.max_len)
        return self.prefix[node.depth] if inside else -1

    def waiting(self) -> list[Node]:
        """The nodes that must be scored before ``advance`` goes on: live ones, and all that the
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
        rules, live = self.rules, self.live
        known = [node for node in live if node.best is not None]
        if not known:
            return False
        values = np.stack([node.best[0] for node in known])  # type: ignore[index]
        values = values + np.array([[node.score] for node in known], dtype=np.float32)
        flat = values.ravel()
        order = np.argsort(-flat, kind="stable")[: rules.candidates].tolist()
        scores = flat.tolist()
        width = values.shape[1]
        ending: list[Ended] = []
        chosen: list[Node] = []
        growth: list[tuple[Node, int, float]] = []
        for rank, at in enumerate(order):
            score = scores[at]
            if not score > float("-inf"):
                if score != score:
                    raise NoTokenError(True, self.step, self.row)
                break
            node = known[at // width]
            token = int(node.best[1][at % width])  # type: ignore[index]
            if token == rules.eos:
                if rank < rules.beam:
                    ending.append(Ended(node, score))
            elif len(growth) < rules.beam:
                growth.append((node, token, score))
        if len(known) < len(live) and not self._decided(growth):
            return False
        forced = self.inside_prefix
        self._end(ending)
        if not self.done:
            if not growth:
                raise NoTokenError(False, self.step, self.row)
            for node, token, score in growth:
                child = node.child(token)
                child.score = score
                self.used += child.best is not None and not forced
                chosen.append(child)
            self.tree.follow(live, chosen)
            self.live = chosen
        return True

    def _decided(self, growth: Sequence[tuple[Node, int, float]]) -> bool:
        """Whether the live nodes that are not scored cannot come among the first N candidates.
        ``growth``: (node, token, score) of the candidates that go on, of the nodes that are
        scored."""
        unknown = max(node.score for node in self.live if node.best is None)
        return len(growth) == self.rules.beam and growth[-1][2] > unknown + self.rules.max_log_prob

    def _end(self, ending: list[Ended]) -> None:
        rules, step = self.rules, self.step
        if ending and self._forced_after(self.live[0]) == rules.eos:
            # Stock gives all N hypotheses what the first one has.
            ending = [one for one in ending if one.node is self.live[0]] * rules.beam
        self.ended += ending[: rules.beam - len(self.ended)]
        self.done = len(self.ended) == rules.beam or (bool(ending) and step >= rules.max_len)

    def agreed(self) -> list[int]:
        """The tokens that all hypotheses, live and ended, begin with."""
        if not self.ended:
            while self._agreed.depth < self.step and len(self._agreed.children) == 1:
                (self._agreed,) = self._agreed.children.values()
        return [node.token for node in self._agreed.path()]
