"""Which strategy decodes a model where nobody says, and what is said of it."""

import json

import pytest
from toy_pair import text_of
from toy_translation import sentences

from fairseq_specdec.hub import SpeculativeTranslator, choice, translator

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
    choice.note(str(tmp_path), str(path), ways)
    noted = json.loads((tmp_path / choice.MEASURED).read_text(encoding="utf-8"))
    assert noted["pairs"] == WAYS and noted["drafter"]["bytes"] == 5
    path.write_bytes(drafter)
    caplog.set_level("INFO")
    found = choice.fastest(str(tmp_path), str(path), ("en", target), flags)
    assert (found and found.strategy) == (way if drafter == b"first" else None)
    assert [way in line for line in caplog.messages] == ([True] if way else [])


def test_a_gpu_drafts_for_small_batches():
    for given, chosen in (
        ((None, None, None, {}, True), ("greedy", None)),
        ((None, "d.pt", None, {}, False), ("gad", None)),
        ((None, "d.pt", None, {}, True), ("gad", "greedy")),
        ((None, "d.pt", None, {"block_size": 3}, True), ("gad", None)),
        (("gad", "d.pt", None, {}, True), ("gad", None)),
    ):
        assert choice.decide(*given)[::2] == chosen


def test_wide_batches_have_a_strategy_of_their_own(pair, monkeypatch):
    """In calls that name none, nor a flag of drafts."""
    monkeypatch.setattr(translator, "decide", lambda *given: choice.Choice("gad", "", "greedy"))
    loaded = SpeculativeTranslator.from_pretrained(pair, device="cpu")
    texts = [text_of(line) for line in sentences(choice.WIDEST + 1, seed=9)]

    def ways(texts, **call):
        return {each.trace.strategy for each in loaded.translate(texts, True, **call)}

    assert ways(texts) == ways(texts, beam=2) == {"greedy"} and ways(texts[1:]) == {"gad"}
    assert ways(texts, strategy="gad") == ways(texts, block_size=2) == {"gad"}
    rows = loaded.encode(texts)
    before = loaded.stats.drafted
    assert len(list(loaded.translate_encoded(rows))) == len(rows)
    assert loaded.stats.drafted == before
    assert loaded.facts()["strategy"] == "gad: ; greedy in batches of more than 8"
