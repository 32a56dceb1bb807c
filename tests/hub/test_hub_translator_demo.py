"""The demo pair by its name: real text in, real text out."""

import pathlib

import pytest

from fairseq_specdec.hub import SpeculativeTranslator

# gad, the first 100 held-out sentences one at a time, of the packed pair; a new pair has others.
ACCEPTED_AT = [0.8185, 0.8083, 0.8343, 0.7958, 0.7857]
ACCEPTED_TOKENS = 4.120
TEXTS = ['Click "OK" - the file\'s name is (still) shown: 100% done.', "Open the file.", ""]


@pytest.fixture(scope="module")
def translator(demo):
    return SpeculativeTranslator.from_pretrained("demo_ende", strategy="gad", device="cpu")


def test_text_in_and_text_out(translator, demo):
    results = translator.translate(TEXTS)
    assert results[1].text == "Öffnen Sie die Datei."
    assert translator.translate("Save.\n\nAs.").text == "Speichern.\n\nWie."
    assert all("@@" not in r.text and "@-@" not in r.text and "&" not in r.text for r in results)
    assert results[2].text == ""
    greedy = SpeculativeTranslator.from_pretrained(demo, strategy="greedy", device="cpu")
    assert [r.tokens for r in greedy.translate(TEXTS)] == [r.tokens for r in results]
    (alone,) = translator.translate(TEXTS[:1])  # three at a time, gad drafts nothing by default
    assert alone.iterations < len(alone.tokens)
    pieces = list(translator.translate_stream(TEXTS[0]))
    assert len(pieces) > 1 and "".join(pieces) == alone.text


def test_the_packed_drafter_is_as_good_as_it_was(demo):
    """Outputs stay right when drafts get worse, so only this notices it."""
    translator = SpeculativeTranslator.from_pretrained(
        demo, strategy="gad", device="cpu", batch_size=1, draft_budget=0
    )
    lines = (pathlib.Path(demo) / "heldout.en").read_text(encoding="utf-8").splitlines()
    translator.translate(lines[:100])
    assert translator.stats.mean_accepted_tokens == pytest.approx(ACCEPTED_TOKENS, rel=0.02)
    accepted = translator.stats.acceptance_by_position[: len(ACCEPTED_AT)]
    assert accepted == pytest.approx(ACCEPTED_AT, rel=0.02)


def test_the_other_direction_is_refused():
    with pytest.raises(ValueError, match="source_lang de, target_lang en: .* exchange them"):
        SpeculativeTranslator.from_pretrained("demo_ende", source_lang="de", target_lang="en")
