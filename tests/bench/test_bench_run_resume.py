"""``--resume``, and result files that a kill leaves whole."""

import json

import pytest

from fairseq_specdec.bench import cli, run

WORDS = ["--system", "g: --strategy greedy", "--limit", 3, "--warmup", 0, "--batch-size", "1,2"]


class Killed(BaseException):
    """As a signal: nothing in between may catch it."""


def test_a_stopped_run_goes_on_where_it_was(bench, tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    honest, measured = run.Bench.measure_size, []

    def measure(self, size):
        measured.append(size)
        if len(measured) == 2:
            raise Killed
        honest(self, size)

    monkeypatch.setattr(run.Bench, "measure_size", measure)
    with pytest.raises(Killed):
        bench(*WORDS, "--json", path)
    first = json.loads(path.read_text())
    assert [part["batch_size"] for part in first["runs"]] == [1]
    result, printed = bench(*WORDS, "--json", path, "--resume")
    assert measured == [1, 2, 2]
    assert [part["batch_size"] for part in result["runs"]] == [1, 2]
    assert result["runs"][0] == first["runs"][0]
    assert len(result["provenance"]["resumed"]) == 1
    assert result == json.loads(path.read_text())
    assert "batch 1," in printed and "batch 2," in printed
    bench(*WORDS, "--json", path, "--resume")
    assert measured == [1, 2, 2], "nothing is left"
    for mine, why in ((["--repeats", 2], "command"), (["--threads", 2], "command, threads")):
        with pytest.raises(ValueError, match=f"another run \\({why} differ\\)"):
            bench(*WORDS, *mine, "--json", path, "--resume")
    assert json.loads(path.read_text())["runs"] == result["runs"], "a refused run spoils nothing"


def test_what_cannot_be_resumed_is_named(bench, tmp_path):
    with pytest.raises(ValueError, match="--resume: goes on from what --json holds"):
        bench(*WORDS, "--resume")
    path = tmp_path / "x.json"
    for text in ("{", "[]", '{"runs": []}'):
        path.write_text(text)
        with pytest.raises(ValueError, match="x.json is no result of specdec-bench"):
            bench(*WORDS, "--json", path, "--resume")


def test_names_that_cannot_be_written_to_are_refused_beforehand(bench, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(cli, "Bench", None)
    for words, message in (
        (["--json", tmp_path], f"--json {tmp_path}: is a folder"),
        (["--html", tmp_path / "file" / "x.html"], "file is no folder that can be written to"),
        (["--plots", tmp_path / "file"], "file is no folder that can be written to"),
    ):
        with pytest.raises(ValueError, match=message):
            bench(*words)


def test_a_run_with_nothing_before_it_begins(bench, tmp_path):
    result, _ = bench(*WORDS, "--json", tmp_path / "x.json", "--resume")
    assert len(result["runs"]) == 2 and "resumed" not in result["provenance"]
