"""When drafting pays, as a picture: the cost model, and what was measured beside it.

    python benchmarks/choosing.py NAME [--isa avx2]
    python benchmarks/choosing.py

With the NAME of a processor, measures (one thread, CPU time, strategies
in turns, the least of the passes over each batch) into ``choosing.json``. Without, draws
``docs/choosing.svg`` from it and prints each point with the model's prediction. Both count all of a
sentence but its tokenisation: what is no step of the decoder is measured, too.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import sys
import tempfile
import time
from typing import Any, NamedTuple

import isa

if __name__ == "__main__":  # before torch is loaded
    isa.hold()

import torch

from fairseq_specdec.costs.figures import save
from fairseq_specdec.costs.measure import measure
from fairseq_specdec.costs.passes import linear
from fairseq_specdec.decoding.draft_plan import Planner
from fairseq_specdec.decoding.planning import times
from fairseq_specdec.engine.native.library import load
from fairseq_specdec.hub import SpeculativeTranslator

HERE = pathlib.Path(__file__).resolve().parent
RESULTS, PICTURE = HERE / "choosing.json", HERE.parent / "docs" / "choosing.svg"
FORMATS = ("fp32", "int8")
BATCHES = (1, 2, 4, 8, 32)
LEAST, MOST = 0.9, 4.0  # of the axis


class Task(NamedTuple):
    """A demo pair and what drafts for it; a draft of one token in passes over one token."""

    name: str
    folder: str
    strategy: str
    language: str
    drafter: float


TASKS = (
    Task("translation", "data-bin/demo_ende", "gad", "en", 0.25),
    Task("correction", "data-bin/demo_edit", "iad", "src", 0.0),
)


def measured(task: Task, number_format: str, table: str, sentences: int, passes: int) -> list[Any]:
    """A point for each number of sentences at a time."""
    given = {"verifier_dtype": number_format, "cost_table": table, "batch_size": max(BATCHES)}
    pair = [
        SpeculativeTranslator.from_pretrained(task.folder, strategy=name, **given)
        for name in ("greedy", task.strategy)
    ]
    for translator in pair:  # no trace of each iteration, as of fairseq-generate
        generator = translator.generator
        generator.options = dataclasses.replace(generator.options, keep_trace=False)
        generator.refresh()
    text = next(pathlib.Path(task.folder).glob(f"heldout.{task.language}")).read_text("utf-8")
    lines = text.splitlines()[:sentences]
    rows = sorted(map(pair[0].codec.encode, lines), key=len)
    parts = pair[1].generator.parts()
    model = times(parts.verifier, pair[1].generator.drafter, parts.drafter, table)
    measurements = []
    for size in BATCHES:
        least: dict[Any, float] = {}
        for _ in range(passes):
            for first in range(0, len(rows), size):
                for translator in pair:
                    used, decoding = time.thread_time(), translator._open()[1]
                    with decoding.batch(rows[first : first + size]) as batch:
                        list(batch.results())
                    used = time.thread_time() - used
                    key = translator.strategy, first
                    least[key] = min(used, least.get(key, used))
        seconds = {
            name: sum(used for (strategy, _), used in least.items() if strategy == name)
            for name in ("greedy", task.strategy)
        }
        greedy = pair[0].stats
        steps = greedy.emitted / greedy.sentences * len(rows) / size * model.verifying(size)
        more = (model.verifying(9 * size) - model.verifying(size)) / 8
        chance = parts.history.acceptance.chance
        measurements.append({
            "task": task.name, "format": number_format, "sentences": size,
            "ratio": model.verifying(size) / more, "others": 1 - steps / seconds["greedy"],
            "chance": chance, "gain": seconds["greedy"] / seconds[task.strategy],
            "model": parts.planning.plan(size, chance).gain,
        })  # fmt: skip
    return measurements


def curve(task: Task, chance: float, others: float, ratios: list[float]) -> list[float]:
    """The model's gain where a step takes so many times another token's, beside other work."""
    plans = [
        Planner(linear(1 / r, task.drafter), resumes=not task.drafter).plan(1, chance)
        for r in ratios
    ]
    return [1 / (others + (1 - others) / plan.gain) for plan in plans]


def draw(points: list[dict[str, Any]]) -> None:
    """The picture: a panel a task."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "choosing"
    figure = Figure(figsize=(7.5, 3.6), layout="constrained")
    ratios = [LEAST * (MOST / LEAST) ** (i / 60) for i in range(61)]
    for axes, task in zip(figure.subplots(1, 2, sharey=True), TASKS):
        mine = [p for p in points if p["task"] == task.name]
        shares = [p["others"] for p in mine]
        chance = sorted(p["chance"] for p in mine)[len(mine) // 2]
        least, most = (curve(task, chance, f(shares), ratios) for f in (max, min))
        axes.fill_between(ratios, least, most, color="0.87", label="model")
        for number, size in enumerate(BATCHES):
            chosen = [p for p in mine if p["sentences"] == size]
            style = {"marker": "osD^v"[number], "color": f"C{number}", "s": 22}
            place = [p["ratio"] for p in chosen], [p["gain"] for p in chosen]
            axes.scatter(*place, label=f"{size} at a time", **style)
        axes.axhline(1, color="0.6", linewidth=0.8, zorder=0)
        axes.set_title(f"{task.name}: {task.strategy}, right at {chance:.2f}", fontsize=9)
        axes.set(xscale="log", xlabel="a step's time / that of one more token a row")
        axes.set_xticks((1, 2, 4), labels=("1", "2", "4"))
        axes.minorticks_off()
    figure.axes[0].set_ylabel("greedy's time / the strategy's")
    figure.axes[1].legend(fontsize=7)
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", nargs="?", help="of the processor")
    parser.add_argument("--isa", help="as of specdec-bench")
    parser.add_argument("--sentences", type=int, default=32)
    parser.add_argument("--passes", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    kept = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    if args.name:
        name = args.name + (f"-{args.isa}" if args.isa else "")
        library, sizes = load(), (args.sentences, args.passes)
        assert library is not None, "needs the native engine"
        with tempfile.NamedTemporaryFile(suffix=".json") as table:
            save(measure(library), table.name)
            kept[name] = [
                p for t in TASKS for f in FORMATS for p in measured(t, f, table.name, *sizes)
            ]
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
        return
    draw([point for points in kept.values() for point in points])
    for name, points in kept.items():
        for p in points:
            predicted = 1 / (p["others"] + (1 - p["others"]) / p["model"])
            sys.stdout.write(
                f"{p['task']}, {name}, {p['format']}, {p['sentences']} at a time: a step is worth "
                f"{p['ratio']:.2f} tokens, {p['others']:.0%} is no step, right at "
                f"{p['chance']:.2f}; model {predicted:.2f}, measured {p['gain']:.2f}\n"
            )


if __name__ == "__main__":
    main()
