"""The benchmark of the start, with a tiny model."""

import re
import time

import pytest
import shapes
import starting

from fairseq_specdec.engine.native import library


def test_every_start_has_its_figures(monkeypatch, capsys):
    if library.load() is None:
        pytest.skip(library.why_not())
    settings = shapes._shape(1, 32, 32, 2, **shapes.PRE_NORM)
    monkeypatch.setitem(shapes.SHAPES, "base", (60, settings))
    here = lambda asked: starting.started(dict(asked), time.monotonic())  # noqa: E731
    monkeypatch.setattr(starting, "start", here)
    starting.main(["base", "--repeats", "1"])
    rows = re.findall(r"^\| this project, (\S+), (\S+) \|(.+)\|$", capsys.readouterr().out, re.M)
    assert [row[:2] for row in rows] == [
        (files, number_format) for number_format in ("fp32", "int8")
        for files in ("checkpoint", "packed")
    ]  # fmt: skip
    for row in rows:
        imports, model, sentence, whole, _, peak, own, files = map(float, row[2].split("|"))
        assert imports + model + sentence == pytest.approx(whole, abs=0.02)
        assert 0 < own < peak and 0 < files < peak


def test_a_start_decodes_as_many_words_as_asked(tmp_path):
    _, _, _, text, length = starting._model("small", str(tmp_path))
    asked = {"engine": "fairseq_specdec", "path": str(tmp_path / "verifier.pt")}
    report = starting.start({**asked, "number_format": "fp32", "text": text, "length": length})
    assert report["tokens"] == starting.WORDS and len(text.split()) == starting.WORDS - 1
