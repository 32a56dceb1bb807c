"""Whether what a paper claims holds in the figures measured here.

Each of the recipe's ``claims`` has tests, ``FIGURE TEST: [system ...]``. The set is a run of
``specdec-bench --by-sentence`` (``SET.json``), whose rows the systems are, and the figure ``tok``
(tokens per iteration), ``speed`` (times faster than stock beam 5) or ``bleu``:

- ``greater``: the first has more than the second.
- ``equal``: the two differ by at most 5 percent.
- ``rises``: the last has more than the first, and none less than the one before it.
- ``peaks``: the figure rises to one that is neither the first nor the last, and falls after it.

A test holds, or does not, where a 95 percent interval (paired bootstrap over sentences) shows it,
and is undecided otherwise; so is one on fewer than 30 sentences, and one of speed that was measured
on a busy machine. A claim holds where all its tests do, and does not where one does not.
"""

import json
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy
from recipe_file import fail, fields, mapping, section, texts
from sacrebleu.metrics import BLEU

from fairseq_specdec.bench import tables
from fairseq_specdec.io.atomic import write_text

HOLDS, FAILS, UNDECIDED, NOT_RUN = "holds", "does not hold", "undecided", "not run"
FIGURES = ("tok", "speed", "bleu")
BEAM = "fairseq beam 5"
MARGIN = 0.05  # relative, of equal figures
RESAMPLES = 1000
LEAST = 30  # sentences from which an interval means something
SEED = 1
INTERVAL = (2.5, 97.5)  # percentiles


class Line(NamedTuple):
    """A test of a claim."""

    claim: str
    source: str
    set: str
    figure: str
    test: str
    systems: list[str]


class Result(NamedTuple):
    """What a test came to: one of the verdicts, and the figures behind it in words."""

    verdict: str
    figures: str


def read(path: pathlib.Path) -> list[Line]:
    """The tests of all claims of a recipe."""
    lines: list[Line] = []
    where, declared = section(path, "claims")
    for claim, entry in mapping(where, declared).items():
        own = fields(f"{where}.{claim}", entry, "where set tests")
        for name, systems in (one for test in own["tests"] for one in mapping(where, test).items()):
            place = f"{where}.{claim}.{name}"
            figure, _, test = name.partition(" ")
            if figure not in FIGURES or test not in TESTS:
                known = f"{', '.join(FIGURES)} and one of {', '.join(TESTS)}"
                raise fail(place, f"expected one of {known}")
            if len(texts(place, systems)) < (3 if test == "peaks" else 2):
                raise fail(place, "takes more systems")
            lines.append(Line(claim, own["where"], own["set"], figure, test, systems))
    return lines


class Run:
    """One set, as measured at batch size 1, and resamples of its sentences. ``sentences``: how many
    were decoded. ``busy``: why its times mean little; empty where they do."""

    def __init__(self, results: dict[str, Any]) -> None:
        (part,) = (part for part in results["runs"] if part["batch_size"] == 1)
        if "by_sentence" not in part:
            raise ValueError("has no figures of sentences: measure again with --by-sentence")
        self._milliseconds = part["ms_by_batch"]
        self._sentences = part["by_sentence"]
        self.sentences = count = len(self._sentences["id"])
        draws = numpy.random.default_rng(SEED).multinomial(
            count, [1 / count] * count, size=RESAMPLES
        )
        # The first row is what was measured: every sentence once.
        self._weights = numpy.vstack([numpy.ones((1, count)), draws])
        threads, load = results["provenance"].get("threads"), (part["load_average"] or [0.0])[0]
        self.busy = f"load average {load:.0f}" if threads and load > threads + 1 else ""

    def has(self, system: str) -> bool:
        return system in self._sentences["systems"]

    def _sums(self, column: Sequence[float]) -> Any:
        return self._weights @ numpy.asarray(column)

    def figure(self, name: str, system: str) -> Any:
        """A figure of one system. Returns float64 [1 + RESAMPLES]: as measured, then of each
        resample."""
        columns = self._sentences["systems"][system]
        if name == "tok":
            return self._sums(columns["tokens"]) / self._sums(columns["iterations"])
        if name == "speed":
            return self._sums(self._milliseconds[BEAM]) / self._sums(self._milliseconds[system])
        if columns["words"] is None:
            raise ValueError("has no BLEU: the data have no references")
        words, wanted = columns["words"], self._sentences["reference_words"]
        matches = [self._sums(part) for part in columns["matches"]]
        runs = [self._sums([max(0, count - n) for count in words]) for n in range(4)]
        lengths, references = self._sums(words), self._sums(wanted)
        return numpy.array(
            [
                BLEU.compute_bleu(
                    [int(part[i]) for part in matches], [int(part[i]) for part in runs],
                    int(lengths[i]), int(references[i]), smooth_method="exp",
                ).score
                for i in range(len(lengths))
            ]
        )  # fmt: skip


def interval(values: Any) -> tuple[float, float]:
    """The 95 percent interval of a figure's resamples."""
    low, high = numpy.percentile(values[1:], INTERVAL)
    return float(low), float(high)


def above(more: Any, less: Any) -> Result:
    """Whether the first figure is above the second."""
    low, high = interval(more - less)
    verdict = HOLDS if low > 0 else FAILS if high < 0 else UNDECIDED
    return Result(verdict, f"{more[0] - less[0]:+.2f} [{low:+.2f}, {high:+.2f}]")


def same(one: Any, other: Any) -> Result:
    """Whether two figures differ by at most ``MARGIN`` of the second."""
    low, high = interval(one / other)
    inside = 1 - MARGIN <= low and high <= 1 + MARGIN
    outside = high < 1 - MARGIN or low > 1 + MARGIN
    verdict = HOLDS if inside else FAILS if outside else UNDECIDED
    return Result(verdict, f"ratio {one[0] / other[0]:.3f} [{low:.3f}, {high:.3f}]")


def together(verdicts: Sequence[str]) -> str:
    """The verdict on what takes all of these to hold."""
    return next((worst for worst in (FAILS, NOT_RUN, UNDECIDED) if worst in verdicts), HOLDS)


def rising(*figures: Any) -> Result:
    """Whether the last figure is above the first, and none below the one before it."""
    whole = above(figures[-1], figures[0])
    falls = any(above(b, a).verdict == FAILS for a, b in zip(figures, figures[1:]))
    return Result(FAILS if falls else whole.verdict, f"in all {whole.figures}")


def peaking(*figures: Any) -> Result:
    """Whether the figures rise to an inner one and fall after it."""
    inner = max(figures[1:-1], key=lambda figure: figure[0])
    rise, fall = above(inner, figures[0]), above(inner, figures[-1])
    words = f"highest inner one above the first {rise.figures}, above the last {fall.figures}"
    return Result(together([rise.verdict, fall.verdict]), words)


TESTS = {"greater": above, "equal": same, "rises": rising, "peaks": peaking}


def judge(line: Line, run: Run | None) -> Result:
    """What a test comes to. ``run``: its set; None where it was not measured."""
    if run is None or not all(run.has(system) for system in line.systems):
        return Result(NOT_RUN, "-")
    figures = [run.figure(line.figure, system) for system in line.systems]
    result = TESTS[line.test](*figures)
    pairs = (f"{name} {figure[0]:.2f}" for name, figure in zip(line.systems, figures))
    words = f"{', '.join(pairs)}: {result.figures}"
    if run.sentences < LEAST:
        return Result(UNDECIDED, f"{words}; of {run.sentences} sentences only")
    if line.figure == "speed" and run.busy:
        return Result(UNDECIDED, f"{words}; the machine was busy ({run.busy})")
    return Result(result.verdict, words)


def render(lines: Sequence[Line], results: Sequence[Result]) -> str:
    """A table of the claims, and a list of the tests behind them."""
    by_claim: dict[tuple[str, str], list[str]] = {}
    for line, result in zip(lines, results):
        by_claim.setdefault((line.claim, line.source), []).append(result.verdict)
    claims = [[*claim, together(verdicts)] for claim, verdicts in by_claim.items()]
    tests = [
        f"- {line.claim} ({line.set}, {line.figure} {line.test}): {result.verdict}. "
        f"{result.figures}"
        for line, result in zip(lines, results)
    ]
    parts = [
        "The papers' claims, in our figures",
        tables.table(["claim", "where", "verdict"], claims),
        "Tests, with 95% intervals (paired bootstrap over the sentences):",
    ]
    return "\n\n".join([*parts, "\n".join(tests)])


def write(recipe: pathlib.Path, folder: pathlib.Path, note: str, output: pathlib.Path) -> None:
    lines = read(recipe)
    runs: dict[str, Run] = {}
    for name in {line.set for line in lines}:
        path = folder / f"{name}.json"
        if path.exists():
            try:
                runs[name] = Run(json.loads(path.read_text(encoding="utf-8")))
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from error
    text = render(lines, [judge(line, runs.get(line.set)) for line in lines])
    write_text(output, f"{text}\n\n- {note}\n", make_folder=True)
