"""Bergamot as a peer, where ``BERGAMOT_PYTHON`` names an interpreter that has it."""

import struct
import sys

import bergamot
import marian
import pytest
import shapes
import torch


def fields(message):
    """(number, value) of a protocol buffer's fields."""
    at = 0

    def number():
        nonlocal at
        found = shift = 0
        while True:
            at += 1
            found |= (message[at - 1] & 127) << shift
            if message[at - 1] < 128:
                return found
            shift += 7

    while at < len(message):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
            continue
        size = number() if key & 7 == 2 else 4
        at += size
        yield key >> 3, message[at - size : at]


def test_words_are_pieces_in_order():
    words = ["</s>", "<unk>", *(f"w{i}" for i in range(2, 200))]
    found = list(fields(bergamot.vocabulary(words)))
    pieces = [dict(fields(value)) for number, value in found if number == 1]
    assert [piece[1].decode().lstrip("\u2581") for piece in pieces] == words
    assert [piece[3] for piece in pieces] == [3, 2, *198 * [1]]
    assert struct.unpack("<f", pieces[100][2])[0] == -0.5
    trainer = dict(fields(dict(found)[2]))
    assert (trainer[4], trainer[40], trainer[42]) == (200, 1, 0)
    assert trainer[41] == trainer[43] == 2**64 - 1


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
