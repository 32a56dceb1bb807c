"""Max-match scoring, M2 (Dahlmeier and Ng 2012): precision, recall and F of corrections.

The edits between a source and a system's output are not unique. M2 takes those that agree with an
annotator's edits in as many places as possible: a path through the lattice of cheapest alignments,
whose arcs may be joined to longer edits over at most two unchanged words. Where several annotators
corrected a sentence, the one is taken that serves the score of all sentences so far best.

Written after the paper and the behaviour of the official scorer (version 3.2), which runs on
Python 2 only; ``tests/scripts/test_m2.py`` reproduces the example of its documentation. Where a few
words repeat many times, that scorer marks insertions at one place greedily and may miss an
agreement that is counted here, as the paper's definition has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .m2_file import Edit, Sentence

Node = tuple[int, int]  # tokens of the source and of the output before this node
MAX_UNCHANGED = 2


class Arc(NamedTuple):
    """A step of a path: no edit, or one."""

    to: Node
    units: int  # unit steps that it joins
    is_edit: bool


class Counts(NamedTuple):
    """Edits that agree, edits of the system, edits of the annotator."""

    correct: int = 0
    proposed: int = 0
    gold: int = 0

    def plus(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(self, other)))

    @property
    def precision(self) -> float:
        """1 where nothing was proposed."""
        return self.correct / self.proposed if self.proposed else 1.0

    @property
    def recall(self) -> float:
        """1 where there was nothing to correct."""
        return self.correct / self.gold if self.gold else 1.0

    def f(self, beta: float = 0.5) -> float:
        """F-beta of precision and recall; 0 where both are 0."""
        weight = beta * beta
        below = weight * self.precision + self.recall
        return (1 + weight) * self.precision * self.recall / below if below else 0.0


def unit_steps(source: Sequence[str], output: Sequence[str]) -> dict[Node, list[tuple[Node, bool]]]:
    """All steps of all cheapest alignments, with a substitution costing 1 and costing 2. Returns
    for every node on such an alignment, where one step leads and whether it is an edit."""
    steps: dict[Node, dict[Node, bool]] = {(len(source), len(output)): {}}
    for substitution in (1, 2):
        costs = edit_costs(source, output, substitution)
        seen, waiting = set(), [(len(source), len(output))]
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            for before, cost in _steps_back(node, source, output, substitution):
                if costs[before[0]][before[1]] + cost == costs[node[0]][node[1]]:
                    steps.setdefault(before, {})[node] = cost > 0
                    waiting.append(before)
    return {node: sorted(after.items()) for node, after in sorted(steps.items())}


def _steps_back(
    node: Node, source: Sequence[str], output: Sequence[str], substitution: int
) -> Iterable[tuple[Node, int]]:
    i, j = node
    if i and j:
        yield (i - 1, j - 1), 0 if source[i - 1] == output[j - 1] else substitution
    if i:
        yield (i - 1, j), 1
    if j:
        yield (i, j - 1), 1


def edit_costs(source: Sequence[str], output: Sequence[str], substitution: int) -> list[list[int]]:
    costs = [[0] * (len(output) + 1) for _ in range(len(source) + 1)]
    for i in range(len(source) + 1):
        for j in range(len(output) + 1):
            if i or j:
                costs[i][j] = min(
                    costs[before[0]][before[1]] + cost
                    for before, cost in _steps_back((i, j), source, output, substitution)
                )
    return costs


def arcs(
    source: Sequence[str], output: Sequence[str], max_unchanged: int = MAX_UNCHANGED
) -> dict[Node, list[Arc]]:
    """The lattice: unit steps, and edits that join several of them. ``max_unchanged``: unchanged
    words that a joined edit may hold."""
    steps = unit_steps(source, output)
    lattice: dict[Node, list[Arc]] = {}
    for start in steps:
        # The fewest unit steps to (node, unchanged words so far, any edit so far).
        reached: dict[tuple[Node, int, bool], int] = {(start, 0, False): 0}
        waiting = [(start, 0, False)]
        for state in waiting:
            node, unchanged, edited = state
            for after, is_edit in steps[node]:
                then = (after, unchanged + (not is_edit), edited or is_edit)
                if then[1] <= max_unchanged and then not in reached:  # first reached, soonest
                    reached[then] = reached[state] + 1
                    waiting.append(then)
        best = {(after, False): 1 for after, is_edit in steps[start] if not is_edit}
        for (node, _, edited), units in reached.items():
            if edited:
                best[node, True] = min(units, best.get((node, True), units))
        lattice[start] = [Arc(to, units, edit) for (to, edit), units in sorted(best.items())]
    return lattice


def match(
    source: Sequence[str],
    output: Sequence[str],
    gold: Sequence[Edit],
    lattice: dict[Node, list[Arc]],
) -> Counts:
    """The counts of the path that agrees most with one annotator.

    Of paths that agree in as many places, one with the fewest unit steps outside of these places
    is taken, and then one with the fewest edits. A gold edit counts once; several insertions at one
    place count in their order.

    Args:
        source, output: tokens.
        gold: in the order of their spans.
        lattice: of ``source`` and ``output``, see :func:`arcs`.
    """
    end = (len(source), len(output))
    # By node and number of gold edits passed: (-correct, unit steps outside, edits of the path).
    best: dict[Node, dict[int, tuple[int, int, int]]] = {(0, 0): {0: (0, 0, 0)}}
    for node in sorted(lattice):
        for passed, (cost, outside, proposed) in best[node].items():
            for arc in lattice[node]:
                place = None
                if arc.is_edit:
                    text = " ".join(output[node[1] : arc.to[1]])
                    place = _find(gold, passed, node[0], arc.to[0], text)
                # An edit may also be passed by, where a later one at the place agrees as well.
                edits = proposed + arc.is_edit
                ways = [(passed, (cost, outside + arc.units, edits))]
                if place is not None:
                    ways.append((place + 1, (cost - 1, outside, edits)))
                there = best.setdefault(arc.to, {})
                for then, candidate in ways:
                    there[then] = min(candidate, there.get(then, candidate))
    cost, _, proposed = min(best[end].values())
    return Counts(-cost, proposed, len(gold))


def _find(gold: Sequence[Edit], passed: int, start: int, end: int, text: str) -> int | None:
    """The first gold edit from ``passed`` on that is this edit, or None."""
    for number in range(passed, len(gold)):
        edit = gold[number]
        if (edit.start, edit.end) > (start, end):
            break
        if (edit.start, edit.end) == (start, end) and text in edit.corrections:
            return number
    return None


def score(
    outputs: Sequence[str],
    sentences: Sequence[Sentence],
    beta: float = 0.5,
    max_unchanged: int = MAX_UNCHANGED,
) -> Counts:
    """The counts of a system over a corpus. ``outputs``: of the system, tokenised as the sources
    are, in their order. ``sentences``: the annotated sources."""
    if len(outputs) != len(sentences):
        raise ValueError(f"{len(outputs)} outputs for {len(sentences)} sentences")
    total = Counts()
    for text, sentence in zip(outputs, sentences):
        output = text.split()
        lattice = arcs(sentence.source, output, max_unchanged)
        candidates = [
            total.plus(match(sentence.source, output, gold, lattice))
            for gold in sentence.edits.values()
        ]
        weight = beta * beta
        total = max(
            candidates, key=lambda c: (_f(c, weight), c.correct, -c.proposed - weight * c.gold)
        )
    return total


def _f(counts: Counts, weight: float) -> float:
    """F of the counts without its factor 1 + beta^2; 1 where there is nothing at all."""
    below = weight * counts.gold + counts.proposed
    return counts.correct / below if below else 1.0
