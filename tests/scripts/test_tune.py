"""Settings are chosen by their goal, recorded, and measured on the test split once."""

import contextlib
import json
import pathlib
from types import SimpleNamespace

import pytest
import tune
from measure import Group

GRID = {  # BLEU, speed over beam 1
    "fairseq beam 1": (30.0, 1.0),
    "greedy": (40.0, 9.0),
    "a tau=1": (30.2, 2.0),
    "a tau=2": (30.2, 2.5),
    "a tau=3": (29.9, 3.0),
    "a tau=4": (28.0, 4.0),
    "b tau=1": (27.0, 5.0),
}


def rows(grid=GRID):
    return [
        {"system": name, "bleu": 1.0, "bleu_compound": bleu, "speed_beam1": speed,
         "base": name[:1], "sweep": {"tau": name[6:]} if "tau" in name else {}}
        for name, (bleu, speed) in grid.items()
    ]  # fmt: skip


@pytest.mark.parametrize(
    "systems, goal, chosen, count",
    [
        ("a ", "bleu", "a tau=2", 4),  # the faster of two
        ("a ", "speed 0", "a tau=2", 4),
        ("a ", "speed 0.1", "a tau=3", 4),
        ("a ", "speed 2", "a tau=4", 4),
        ("b ", "speed 1", "b tau=1", 1),  # none loses so little
    ],
)
def test_the_goal_decides(systems, goal, chosen, count):
    row, of = tune.choose(rows(), systems, goal)
    assert (row["system"], of) == (chosen, count)


@pytest.mark.parametrize(
    "systems, goal, message",
    [
        ("c", "bleu", "begins with 'c'"),
        ("a", "best", "'best' is neither"),
        ("a", "speed", "neither"),
    ],
)
def test_other_goals_and_empty_grids_are_refused(systems, goal, message):
    with pytest.raises(ValueError, match=message):
        tune.choose(rows(), systems, goal)


class Step(SimpleNamespace):
    """What an action asks of a step."""

    def __getitem__(self, name):
        return {"DIRECTION": "en-de"}[name]

    def make(self, folder):
        folder.mkdir(parents=True, exist_ok=True)

    def call(self, function, *words):
        getattr(tune, function[len("tune.") :])(*words)

    remedy = staticmethod(lambda text: contextlib.nullcontext())


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Runs ``tune_step``: the sets that it measured, and what it recorded."""

    def run(table, sets="", split="valid"):
        recipe = SimpleNamespace(file=tmp_path / f"{len(table)}.yaml")
        recipe.file.write_text(table, encoding="utf-8")
        group = Group("grid", split, pathlib.Path("v.pt"))
        flags = ["--strategy", "gad++", "--sweep", "tau=1,2,3,4"]
        group.systems += [("a", flags, [pathlib.Path("d.pt")])]
        seen = []

        def measure_set(step, bench, devices, group):
            seen.append(group)
            path = tmp_path / f"{group.name}.json"
            path.write_text(json.dumps({"runs": [{"rows": rows()}]}), encoding="utf-8")
            return path

        monkeypatch.setattr(tune, "Benchmark", lambda step: SimpleNamespace(out=tmp_path / "out"))
        monkeypatch.setattr(tune, "Devices", lambda step: None)
        monkeypatch.setattr(tune, "collect", lambda step, bench: {"grid": group})
        monkeypatch.setattr(tune, "measure_set", measure_set)
        settings = SimpleNamespace(words=lambda name: sets.split())
        tune.tune_step(Step(recipe=recipe, settings=settings, dry=False))
        record = tmp_path / "out/tuned.json"
        return seen, json.loads(record.read_text(encoding="utf-8")) if record.exists() else None

    return run


LINES = """
choices:
  quality: {direction: en-de, set: grid, systems: 'a ', goal: bleu}
  fast: {set: grid, systems: 'a ', goal: speed 0.1}
  other: {direction: de-en, set: grid, systems: 'a ', goal: bleu}
"""


def test_choices_are_recorded_and_measured_on_the_test_split(measured):
    seen, record = measured(LINES)
    assert [group.name for group in seen] == ["grid", "grid", "tuned"]
    tuned = seen[-1]
    assert tuned.split == "test" and tuned.verifier == pathlib.Path("v.pt")
    wanted = {"quality": "2", "fast": "3"}
    assert {name: words for name, words, _ in tuned.systems[1:]} == {
        name: ["--strategy", "gad++", "--tau", tau] for name, tau in wanted.items()
    }
    assert {name: choice["system"] for name, choice in record.items()} == {
        name: f"a tau={tau}" for name, tau in wanted.items()
    }
    assert record["fast"]["flags"] == "--strategy gad++ --tau 3" and record["fast"]["of"] == 4
    assert (record["fast"]["bleu"], record["fast"]["speed_beam1"]) == GRID["a tau=3"]
    seen, record = measured(LINES, split="test")  # is measured once
    assert {group.name for group in seen} == {"grid"} and set(record) == {"quality", "fast"}
    assert measured(LINES, sets="base")[0] == []
