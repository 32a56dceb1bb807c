"""Speed-up of single sentences by edit ratio: edit distance in words over the input's length."""

import json
import pathlib
import re

import numpy
from benchmark import Benchmark
from m2 import edit_costs
from step import Step

from fairseq_specdec.bench.tables import table
from fairseq_specdec.io.atomic import write_text

BASES = ("fairseq beam 1", "greedy")  # stock greedy, and this engine's
EDGES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, numpy.inf)  # upper ends of the bins


def write(run: pathlib.Path, output: pathlib.Path, figure: pathlib.Path) -> None:
    """Write and print the table of a set. ``run``: of specdec-bench, at batch size 1. ``output``:
    of fairseq-generate."""
    found = re.findall(r"^([SD]-\d+)\t(?:\S+\t)?(.*)$", output.read_text(encoding="utf-8"), re.M)
    words = {name: text.split() for name, text in found}
    (part,) = json.loads(run.read_text(encoding="utf-8"))["runs"]
    times, ids = part["ms_by_batch"], [n for (n,) in part["sentences"]]
    if not {f"{kind}-{n}" for kind in "SD" for n in ids} <= set(words):
        raise ValueError(f"{output} lacks sentences of {run}; decode again")
    pairs = ((words[f"S-{n}"], words[f"D-{n}"]) for n in ids)
    ratios = [edit_costs(a, b, 1)[len(a), len(b)] / max(1, len(a)) for a, b in pairs]
    places, body = numpy.searchsorted(EDGES, ratios), []
    for place in sorted(set(places)):
        chosen = [numpy.divide(times[base], times["iad"])[places == place] for base in BASES]
        spreads = numpy.percentile(chosen, (50, 25, 75), axis=1).T
        cells = ["{:.2f} ({:.2f} to {:.2f})".format(*each) for each in spreads]
        body.append([f"to {EDGES[place]}" if place else "0", str(len(chosen[0])), *cells])
    head = ["edit ratio", "sentences", *(f"iad over {base}: median (quartiles)" for base in BASES)]
    write_text(figure, f"Figure 5, {run.stem}\n\n{table(head, body)}\n")
    print(figure.read_text(encoding="utf-8"))


def figure_step(step: Step, *names: str) -> None:
    """An action: the figure of these sets, where they were decoded and measured."""
    out, sets = Benchmark(step).out, {system.set for system in step.recipe.systems()}
    for name in filter(sets.__contains__, names):
        files = (out / "bench" / f"{name}.json", out / "decoded" / f"{name}.iad.out")
        if all(map(step.made, files)):
            step.call("edit_ratio.write", *files, out / f"edit_ratio.{name}.md")
        else:
            step.log(f"{name} left out: decode and measure it first, with MODELS of its verifier")
