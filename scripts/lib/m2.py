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

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from text_files import read_lines

Node = tuple[int, int]  # tokens of the source and of the output before this node
MAX_UNCHANGED = 2  # words within a joined edit
WEIGHT = 0.5**2  # of recall: F0.5


class Edit(NamedTuple):
    """A span of source tokens and what may replace it."""

    start: int
    end: int
    corrections: tuple[str, ...]  # alternatives, tokens between blanks; "" is a deletion


class Sentence(NamedTuple):
    """A tokenised source and, by annotator, the edits in the order of their spans."""

    source: tuple[str, ...]
    edits: dict[int, tuple[Edit, ...]]


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

    @property
    def precision(self) -> float:
        """1 where nothing was proposed."""
        return self.correct / self.proposed if self.proposed else 1.0

    @property
    def recall(self) -> float:
        """1 where there was nothing to correct."""
        return self.correct / self.gold if self.gold else 1.0

    @property
    def f(self) -> float:
        """F0.5 of precision and recall."""
        below = WEIGHT * self.gold + self.proposed
        return (1 + WEIGHT) * self.correct / below if below else 1.0


def parse(text: str, name: str = "M2") -> list[Sentence]:
    """The sentences of an M2 file.

    ``S`` lines hold a source, ``A start end|||type|||correction||correction|||...|||annotator``
    lines its edits; a ``noop`` edit, or one at ``-1 -1``, means that its annotator changed nothing.
    A sentence without any ``A`` line has one annotator, who changed nothing.
    """
    sentences: list[Sentence] = []
    for number, line in enumerate(text.split("\n"), 1):
        kind, _, rest = line.rstrip().partition(" ")
        where = f"{name}, line {number}"
        if kind == "S":
            sentences.append(Sentence(tuple(rest.split()), {}))
        elif kind == "A":
            if not sentences:
                raise ValueError(f"{where}: an A line before any S line")
            annotator, edits = _edits(rest, len(sentences[-1].source), where)
            mine = [*sentences[-1].edits.get(annotator, ()), *edits]
            sentences[-1].edits[annotator] = tuple(sorted(mine, key=lambda edit: edit[:2]))
        elif kind or rest:
            raise ValueError(f"{where}: expected 'S ...' or 'A ...': {line[:60]}")
    return [sentence._replace(edits=sentence.edits or {0: ()}) for sentence in sentences]


def _edits(line: str, size: int, where: str) -> tuple[int, list[Edit]]:
    """The annotator of an ``A`` line, and the edit, unless nothing is changed."""
    fields = line.split("|||")
    try:
        start, end = map(int, fields[0].split())
        annotator = int(fields[5])
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"{where}: expected 'A start end|||type|||correction|||...|||...|||annotator'"
        ) from error
    if fields[1] == "noop" or start < 0 or end < 0:
        return annotator, []
    if not start <= end <= size:
        raise ValueError(f"{where}: span {start} {end} is outside of its {size} tokens")
    texts = (" ".join(text.split()) for text in fields[2].split("||"))
    corrections = tuple("" if text == "-NONE-" else text for text in texts)
    return annotator, [Edit(start, end, corrections)]


def read(path: str) -> list[Sentence]:
    """The sentences of a file, see :func:`parse`."""
    return parse("\n".join(read_lines(path)), path)


def _steps_back(
    node: Node, source: Sequence[str], output: Sequence[str], substitution: int
) -> Iterator[tuple[Node, int]]:
    i, j = node
    if i and j:
        yield (i - 1, j - 1), 0 if source[i - 1] == output[j - 1] else substitution
    if i:
        yield (i - 1, j), 1
    if j:
        yield (i, j - 1), 1


def edit_costs(source: Sequence[str], output: Sequence[str], substitution: int) -> dict[Node, int]:
    """The cost of the cheapest alignment of what is before each node."""
    costs: dict[Node, int] = {}
    for node in itertools.product(range(len(source) + 1), range(len(output) + 1)):
        back = _steps_back(node, source, output, substitution)
        costs[node] = min((costs[before] + cost for before, cost in back), default=0)
    return costs


def unit_steps(source: Sequence[str], output: Sequence[str]) -> dict[Node, dict[Node, bool]]:
    """All steps of all cheapest alignments, with a substitution costing 1 and costing 2. Returns
    for every node on such an alignment, where one step leads and whether it is an edit."""
    end = (len(source), len(output))
    steps: dict[Node, dict[Node, bool]] = {end: {}}
    for substitution in (1, 2):
        costs = edit_costs(source, output, substitution)
        waiting, seen = [end], {end}
        for node in waiting:
            for before, cost in _steps_back(node, source, output, substitution):
                if costs[before] + cost == costs[node]:
                    steps.setdefault(before, {})[node] = cost > 0
                    if before not in seen:
                        seen.add(before)
                        waiting.append(before)
    return steps


def arcs(source: Sequence[str], output: Sequence[str]) -> dict[Node, list[Arc]]:
    """The lattice: unit steps, and edits that join several of them."""
    steps = unit_steps(source, output)
    lattice: dict[Node, list[Arc]] = {}
    for start in sorted(steps):
        # The fewest unit steps to (node, unchanged words so far, any edit so far).
        reached: dict[tuple[Node, int, bool], int] = {(start, 0, False): 0}
        waiting = list(reached)
        for state in waiting:
            node, unchanged, edited = state
            for after, is_edit in sorted(steps[node].items()):
                then = (after, unchanged + (not is_edit), edited or is_edit)
                if then[1] <= MAX_UNCHANGED and then not in reached:  # first reached, soonest
                    reached[then] = reached[state] + 1
                    waiting.append(then)
        best = {(after, False): 1 for after, is_edit in steps[start].items() if not is_edit}
        for (node, _, edited), units in reached.items():
            if edited:
                best[node, True] = min(units, best.get((node, True), units))
        lattice[start] = [Arc(to, units, edit) for (to, edit), units in sorted(best.items())]
    return lattice


def match(output: Sequence[str], gold: Sequence[Edit], lattice: dict[Node, list[Arc]]) -> Counts:
    """The counts of the path that agrees most with one annotator.

    Of paths that agree in as many places, one with the fewest unit steps outside of these places
    is taken, and then one with the fewest edits. A gold edit counts once; several insertions at one
    place count in their order.

    Args:
        output: tokens.
        gold: in the order of their spans.
        lattice: of a source and ``output``, see :func:`arcs`.
    """
    # By node and number of gold edits passed: (-correct, unit steps outside, edits of the path).
    best: dict[Node, dict[int, tuple[int, int, int]]] = {(0, 0): {0: (0, 0, 0)}}
    for node in lattice:
        for passed, (cost, outside, proposed) in best[node].items():
            for to, units, is_edit in lattice[node]:
                # An edit may also be passed by, where a later one at the place agrees as well.
                edits = proposed + is_edit
                ways = [(passed, (cost, outside + units, edits))]
                text = " ".join(output[node[1] : to[1]])
                for number in range(passed, len(gold)) if is_edit else ():
                    if gold[number][:2] == (node[0], to[0]) and text in gold[number].corrections:
                        ways.append((number + 1, (cost - 1, outside, edits)))
                        break
                there = best.setdefault(to, {})
                for then, candidate in ways:
                    there[then] = min(candidate, there.get(then, candidate))
    cost, _, proposed = min(best[max(lattice)].values())
    return Counts(-cost, proposed, len(gold))


def score(outputs: Sequence[str], sentences: Sequence[Sentence]) -> Counts:
    """The counts of a system over a corpus. ``outputs``: of the system, tokenised as the sources
    are, in their order. ``sentences``: the annotated sources."""
    if len(outputs) != len(sentences):
        raise ValueError(f"{len(outputs)} outputs for {len(sentences)} sentences")
    total = Counts()
    for text, sentence in zip(outputs, sentences):
        output = text.split()
        lattice = arcs(sentence.source, output)
        found = [match(output, gold, lattice) for gold in sentence.edits.values()]
        sums = [Counts(*map(sum, zip(total, counts))) for counts in found]
        total = max(sums, key=lambda c: (c.f, c.correct, -c.proposed - WEIGHT * c.gold))
    return total
