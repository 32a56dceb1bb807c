"""python -m fairseq_specdec.costs.cli."""

import pytest

from fairseq_specdec.costs.cli import cli_main
from fairseq_specdec.costs.figures import load
from fairseq_specdec.costs.tables import kept_at
from fairseq_specdec.engine.native import library


@pytest.fixture(autouse=True)
def native():
    if library.load() is None:
        pytest.skip(library.why_not())


def test_it_writes_and_shows_figures(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "costs.json"
    for words, written in (([str(path)], path), ([], kept_at(library.load().variant))):
        cli_main(words)
        shown = capsys.readouterr().out
        assert load(written).processor in shown and f"written to {written}" in shown
        assert "int8 " in shown and "16 MiB" in shown


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match="python -m fairseq_specdec.costs.cli: error: .*file"):
        cli_main([str(tmp_path / "file" / "x.json")])


def test_without_the_engine_it_is_named(monkeypatch):
    monkeypatch.setenv("FAIRSEQ_SPECDEC_NATIVE", "off")
    with pytest.raises(SystemExit, match="needs the native engine: .* is off"):
        cli_main([])
