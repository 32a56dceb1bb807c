"""``specdec-accelerate`` with a multilingual verifier: one drafter, measured with each pair."""

import json

import pytest
from printed_commands import run_printed, take_small_steps

from fairseq_specdec.accelerate import cli
from fairseq_specdec.checkpoints.reading import load_model

BRIEF = (
    "--limit", 30, "--eval-sentences", 4, "--measure-sentences", 4, "--decode-beam", 1,
    "--batch-sizes", 1,
)  # fmt: skip


@pytest.fixture
def accelerate(languages, family, tmp_path, monkeypatch):
    """Run the command on the toy with language tokens on both sides."""
    take_small_steps(monkeypatch, layers=2)

    def run(*words):
        given = [languages, "--path", family("m2m").path, "--out", tmp_path / "out", "--cpu"]
        cli.cli_main(list(map(str, [*given, *words])))
        return tmp_path / "out"

    return run


@pytest.mark.slow
def test_one_drafter_is_made_for_all_pairs(accelerate, caplog):
    """In the gate test_converted.py has the steps before the first figure."""
    out = accelerate("--updates", 6, *BRIEF)
    steps = json.loads((out / "state.json").read_text(encoding="utf-8"))["steps"]
    assert steps["distil"]["counts"]["chosen"] == 60 and steps["train"]["updates"] == 6
    rows = steps["measure"]["rows"]
    assert list(rows) == ["en-de, batches of 1", "en-ro, batches of 1"]
    for each in rows.values():
        assert each["gad"]["identical_percent"] == each["greedy"]["identical_percent"] == 100
    state = load_model(str(out / "drafter.pt"))
    assert set(state["word_list"]["pairs"]) == {"en-de", "en-ro"}
    page = (out / "report.html").read_text(encoding="utf-8")
    for pair in ("-s en -t de", "-s en -t ro"):
        assert pair in page and pair in caplog.text
    assert "One sentence at a time, beam 1, en-ro: " in page
    assert run_printed(out / "report.html") == ["fairseq-generate"] * 2


def test_pairs_without_data_are_named(accelerate):
    with pytest.raises(SystemExit, match="no split train of en-fr; .* with --lang-pairs"):
        accelerate("--lang-pairs", "en-de,en-fr")
    with pytest.raises(SystemExit, match="no split train of de-en"):
        accelerate("-s", "de", "-t", "en")
