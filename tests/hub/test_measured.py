"""Which strategy a folder is decoded with where its drafter was measured."""

import json

import pytest

from fairseq_specdec.hub import measured

WAYS = {"en-de": {"1": "greedy", "5": "gad"}, "en-fr": {"1": "gad"}}


@pytest.fixture
def folder(tmp_path):
    measured.note(
        str(tmp_path), {pair: {int(b): w for b, w in d.items()} for pair, d in WAYS.items()}
    )
    assert json.loads((tmp_path / measured.MEASURED).read_text(encoding="utf-8")) == WAYS
    return tmp_path


@pytest.mark.parametrize(
    "target, flags, way",
    [
        ("de", {}, "greedy"),
        ("de", {"beam": 4}, "gad"),
        ("de", {"beam": 2, "lenpen": 1.0}, "greedy"),
        ("fr", {"beam": 9}, "gad"),
        ("ro", {}, None),
        ("de", {"draft_confidence": 0.1}, None),
        ("de", {"block_size": 4}, None),
        ("de", {"verifier_dtype": "int8"}, "greedy"),
        ("de", {"beam": "5"}, None),
    ],
)
def test_the_nearest_beam_decides(folder, target, flags, way, caplog):
    """Not for another pair, nor against a flag that only drafts have."""
    caplog.set_level("INFO")
    assert measured.fastest(str(folder), ("en", target), flags) == way
    assert [way in line for line in caplog.messages] == ([True] if way else [])


def test_nothing_was_measured(tmp_path):
    assert measured.fastest(str(tmp_path), ("en", "de"), {}) is None


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"en-de": {"1": "sps"}}', '{"en-de": {"x": "gad"}}', '{"en-de": [1]}']
)
def test_a_damaged_file_is_named(folder, text):
    (folder / measured.MEASURED).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="fastest.json: .*delete it"):
        measured.fastest(str(folder), ("en", "de"), {})
