"""Which strategy a folder is decoded with where its drafter was measured."""

import json

import pytest

from fairseq_specdec.hub import measured

WAYS = {"en-de": {"1": "greedy", "5": "gad"}, "en-fr": {"1": "gad"}, "en-en": {"1": "iad"}}


def fastest(folder, target, flags):
    return measured.fastest(str(folder), str(folder / "drafter.pt"), ("en", target), flags)


@pytest.fixture
def folder(tmp_path):
    ways = {pair: {int(beam): way for beam, way in each.items()} for pair, each in WAYS.items()}
    (tmp_path / "drafter.pt").write_bytes(b"first")
    measured.note(str(tmp_path), str(tmp_path / "drafter.pt"), ways)
    noted = json.loads((tmp_path / measured.MEASURED).read_text(encoding="utf-8"))
    assert noted["pairs"] == WAYS and noted["drafter"]["bytes"] == 5
    return tmp_path


@pytest.mark.parametrize(
    "target, flags, way",
    [
        ("de", {}, "greedy"),
        ("de", {"beam": 4}, "gad"),
        ("en", {}, "iad"),
        ("ro", {}, None),
        ("de", {"draft_confidence": 0.1}, None),
        ("de", {"block_size": 4}, None),
        ("de", {"beam": "5"}, None),
    ],
)
def test_the_nearest_beam_decides(folder, target, flags, way, caplog):
    """Not for another pair, nor against a flag that only drafts have."""
    caplog.set_level("INFO")
    assert fastest(folder, target, flags) == way
    assert [way in line for line in caplog.messages] == ([True] if way else [])


@pytest.mark.parametrize("content", [b"other", b"longer"])
def test_another_drafter_was_not_measured(folder, content, caplog):
    """Neither where it has the size of the one that was."""
    (folder / "drafter.pt").write_bytes(content)
    assert fastest(folder, "de", {}) is None
    (line,) = caplog.messages
    assert "fastest.json: was measured with another drafter than " in line
    assert fastest(folder, "ro", {}) is None and len(caplog.messages) == 1
