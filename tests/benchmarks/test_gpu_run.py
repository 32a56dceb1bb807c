"""benchmarks/gpu.sh: its steps, and what becomes of them."""

import argparse
import sys

import gpu_figures
import gpu_run
import pytest

REPO = gpu_run.REPOSITORY


def given(folder, device="cpu"):
    return argparse.Namespace(folder=folder, device=device, sentences=4, minutes=1)


def step(name, code, seconds=60, **more):
    return gpu_run.Step(name, seconds, [sys.executable, "-c", code], **more)


def test_what_is_done(tmp_path):
    names = [one.name for one in gpu_run.steps(given(tmp_path, "cuda"))]
    assert names[:3] == ["check", "tests", "iterations"] and len(set(names)) == 13
    rehearsed = gpu_run.steps(given(tmp_path))
    assert {one.name for one in rehearsed} < set(names)
    for one in rehearsed:
        words = list(map(str, one.command))
        assert "--fp16" not in words and "cuda" not in words
        assert one.name == "tests" or "cpu" in words or "--cpu" in words


@pytest.mark.parametrize(
    "code, seconds, left, result",
    [
        ("print(1)", 60, 60, "done"),
        ("raise SystemExit(3)", 60, 60, "failed (3)"),
        ("import time; time.sleep(60)", 1, 60, "took too long"),
        ("print(1)", 60, 4, "no time left"),
    ],
)
def test_what_becomes_of_a_step(tmp_path, code, seconds, left, result):
    assert gpu_run.run(step("one", code, seconds), left, tmp_path) == result


def results(folder, lines):
    folder.mkdir()
    (folder / "generate-test.txt").write_text("".join(line + "\n" for line in lines))
    return folder


def test_identity_of_what_was_printed(tmp_path, capsys):
    one = results(tmp_path / "one", ["S-0\ta", "H-0\t-0.5\tb c", "H-1\t-0.25\td"])
    near = results(tmp_path / "near", ["H-0\t-0.5000001\tb c", "H-1\t-0.25\td"])
    other = results(tmp_path / "other", ["H-0\t-0.5\tb c", "H-1\t-0.25\te"])
    less = results(tmp_path / "less", ["H-0\t-0.5\tb c"])
    for folder, status in ((near, 0), (other, 1), (less, 1)):
        compared = given(tmp_path)
        compared.folders = [one, folder]
        assert gpu_figures.same(compared) == status
    assert "1 of 2 hypotheses" in (tmp_path / "beam5_identity.md").read_text()


@pytest.mark.parametrize(
    "with_graphs, most", [((0.5, 2.0, 7.9), 8), ((0.5, 4.0, 9.0), 1), ((1.0, 2.0, 4.0), 0)]
)
def test_graphs_are_used_up_to_the_rows_where_they_pay(with_graphs, most, monkeypatch):
    without = dict(zip(gpu_figures.ROWS, (1.0, 4.0, 8.0)))
    faster = dict(zip(gpu_figures.ROWS, with_graphs))

    class TimedPair:
        def milliseconds(self, strategy, rows, iterations, graphs):
            time = (faster if graphs == "on" and strategy == "gad" else without)[rows]
            return without[rows] / 2 if graphs == "on" and strategy == "greedy" else time

    monkeypatch.setattr("torch.cuda.max_memory_allocated", lambda: 1)
    monkeypatch.setattr("torch.cuda.reset_peak_memory_stats", lambda: None)
    table = gpu_figures.measured(TimedPair(), "fp16", small=False)
    assert gpu_figures.rows_that_gain(table) == most and len(table) == 3
