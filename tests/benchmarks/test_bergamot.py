"""Bergamot as a peer, where ``BERGAMOT_PYTHON`` names an interpreter that has it."""

import sys

import bergamot
import marian
import pytest
import shapes
import torch


def test_an_interpreter_without_it_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(bergamot, "PYTHON", sys.executable)
    with pytest.raises(RuntimeError, match="^BERGAMOT_PYTHON: .* does not run bergamot; install"):
        bergamot.Bergamot(str(tmp_path), ["</s>", "<unk>"], 1.0, 10)([["w2"]])


def test_time_of_another_process_is_counted():
    assert shapes.cpu_ms(lambda: bergamot.Elsewhere(12.5)) == 12.5


@pytest.mark.skipif(
    not (bergamot.PYTHON and marian.installed()), reason="needs pymarian and BERGAMOT_PYTHON"
)
def test_outputs_are_as_long_as_asked(monkeypatch, tmp_path):
    monkeypatch.setitem(shapes.SHAPES, "base", (64, shapes._shape(1, 64, 128, 2)))
    with torch.no_grad():
        bench = shapes.make("base", 4, 12, str(tmp_path), rows=2)
    made = marian.Marian(bench.model, str(tmp_path), "avx2")
    batches = [list(map(marian.line, batch)) for batch in bench.sources]
    run = bergamot.Bergamot(str(tmp_path), made.names, 13 / 12, 24)
    took, lengths = run(batches)
    assert took.cpu_ms > 0 and lengths == 4 * [13]
