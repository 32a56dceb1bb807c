"""Settings chosen on a grid, as the papers choose theirs, and what they come to on the test split.

Each of a recipe's ``choices`` has as its grid the systems of a set whose names begin with
``systems``. Goals:

- ``bleu``: the best BLEU (Ge et al. 2022 and Xia et al. 2023, on the development set);
- ``speed N``: the fastest of those that lose at most N BLEU against stock's greedy decoding (Kim et
  al. 2023, Table 1); where none does, the best BLEU.

Of equal ones the faster is taken. What was measured before is not measured again. ``tuned.json``
records each choice; one made on another split than test is measured there, as the set ``tuned``.
"""

import json
import pathlib
import shlex
from typing import Any, NamedTuple

from benchmark import Benchmark
from launch import Devices
from measure import Group, collect, measure_set, own_words
from recipe import StepError
from recipe_file import entries, fields, section
from step import Step

from fairseq_specdec.bench.tables import table
from fairseq_specdec.io.atomic import write_text
from fairseq_specdec.io.flag_values import flag_of

STOCK = "fairseq beam 1"


class Choice(NamedTuple):
    """What is to be chosen. ``systems``: how the names of its grid's systems begin."""

    name: str
    direction: str
    set: str
    systems: str
    goal: str


def read(path: pathlib.Path) -> list[Choice]:
    """The choices of a recipe's YAML."""
    made = []
    for where, name, entry in entries(*section(path, "choices")):
        own = fields(where, entry, "set systems goal", "direction")
        place = own.get("direction", "*")
        made.append(Choice(name, place, own["set"], own["systems"], own["goal"]))
    return made


def quality(row: dict[str, Any]) -> float:
    """BLEU of a row of specdec-bench, with compounds split where the papers do."""
    split = row.get("bleu_compound")
    return float(row["bleu"] if split is None else split)


def choose(rows: list[dict[str, Any]], systems: str, goal: str) -> tuple[dict[str, Any], int]:
    """The row of a goal, and of how many. Raises ValueError: none to choose from, or
    another goal."""
    grid = [row for row in rows if row["system"].startswith(systems)]
    if not grid:
        raise ValueError(f"no system that was measured begins with {systems!r}")
    name, _, loss = goal.partition(" ")
    if name not in ("bleu", "speed") or (name == "speed") != bool(loss):
        raise ValueError(f"the goal {goal!r} is neither 'bleu' nor 'speed N'")
    if name == "speed":
        (stock,) = (row for row in rows if row["system"] == STOCK)
        good = [row for row in grid if quality(row) >= quality(stock) - float(loss)]
        if good:
            return max(good, key=lambda row: (row["speed_beam1"], quality(row))), len(grid)
    return max(grid, key=lambda row: (quality(row), row["speed_beam1"])), len(grid)


def chosen_words(group: Group, row: dict[str, Any]) -> list[str]:
    """The flags of a row, of the system that it is or was swept from."""
    (words,) = (words for name, words, _ in group.systems if name == row["base"])
    sweep = [word for flag, value in row["sweep"].items() for word in (flag_of(flag), value)]
    return own_words(words)[0] + sweep


def write(choices: dict[str, dict[str, Any]], output: pathlib.Path) -> None:
    """Record choices: ``output``, and a table beside it."""
    write_text(output, json.dumps(choices, indent=1) + "\n", make_folder=True)
    head = ["choice", "set", "goal", "of", "chosen", "BLEU", "speed vs beam 1"]
    body = [
        [name, c["set"], c["goal"], str(c["of"]), c["system"], f"{c['bleu']:.2f}",
         f"{c['speed_beam1']:.2f}"] for name, c in choices.items()
    ]  # fmt: skip
    write_text(output.with_suffix(".md"), table(head, body) + "\n")


def tune_step(step: Step) -> None:
    """An action: choose as the recipe says (of TABLE_SETS), and measure on the test split."""
    wanted = read(step.recipe.file)
    if not wanted:
        return
    step.make(Benchmark(step).out / "bench")
    bench, devices, groups = Benchmark(step), Devices(step), collect(step, Benchmark(step))
    names = step.settings.words("TABLE_SETS") or list(groups)
    choices: dict[str, dict[str, Any]] = {}
    tuned: dict[str, Group] = {}
    for choice in wanted:
        if choice.direction not in ("*", step["DIRECTION"]):
            continue
        if choice.set not in names or choice.set not in groups:
            continue
        group = groups[choice.set]
        figures = measure_set(step, bench, devices, group)
        if step.dry:
            step.call("tune.choose", figures, choice.systems, choice.goal)
            continue
        (run, *_) = json.loads(figures.read_text(encoding="utf-8"))["runs"]
        with step.remedy(f"see choices in {step.recipe.file}"):
            row, count = choose(run["rows"], choice.systems, choice.goal)
        words = chosen_words(group, row)
        choices[choice.name] = {
            "set": choice.set, "split": group.split, "goal": choice.goal, "of": count,
            "system": row["system"], "flags": shlex.join(words).replace(str(bench.out), "."),
            "bleu": quality(row), "speed_beam1": row["speed_beam1"],
        }  # fmt: skip
        if group.split != "test":
            (used,) = (paths for name, _, paths in group.systems if name == row["base"])
            there = tuned.setdefault("tuned", Group("tuned", "test", group.verifier))
            if there.verifier != group.verifier:
                raise StepError("choices for the test split have two verifiers")
            there.systems.append((choice.name, words, used))
    if choices:
        step.call("tune.write", choices, bench.out / "tuned.json")
    for group in tuned.values():
        measure_set(step, bench, devices, group)
