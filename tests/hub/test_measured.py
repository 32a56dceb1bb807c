"""Which strategy a folder is decoded with where its drafter was measured."""

import json

import pytest

from fairseq_specdec.hub import measured

WAYS = {"en-de": {"1": "greedy", "5": "gad"}, "en-fr": {"1": "gad"}, "en-en": {"1": "iad"}}


@pytest.mark.parametrize(
    "target, flags, drafter, way",
    [
        ("de", {}, b"first", "greedy"),
        ("de", {"beam": 4}, b"first", "gad"),
        ("en", {}, b"first", "iad"),
        ("ro", {}, b"other", None),
        ("de", {"draft_confidence": 0.1}, b"first", None),
        ("de", {"block_size": 4}, b"first", None),
        ("de", {"beam": "5"}, b"first", None),
        ("de", {}, b"other", "measured with another drafter"),
        ("de", {}, b"longer", "measured with another drafter"),
    ],
)
def test_the_nearest_beam_decides(tmp_path, target, flags, drafter, way, caplog):
    """Not for another pair, with another drafter, nor against a flag that only drafts have."""
    path = tmp_path / "drafter.pt"
    path.write_bytes(b"first")
    ways = {pair: {int(beam): name for beam, name in each.items()} for pair, each in WAYS.items()}
    measured.note(str(tmp_path), str(path), ways)
    noted = json.loads((tmp_path / measured.MEASURED).read_text(encoding="utf-8"))
    assert noted["pairs"] == WAYS and noted["drafter"]["bytes"] == 5
    path.write_bytes(drafter)
    caplog.set_level("INFO")
    found = measured.fastest(str(tmp_path), str(path), ("en", target), flags)
    assert found == (way if drafter == b"first" else None)
    assert [way in line for line in caplog.messages] == ([True] if way else [])
