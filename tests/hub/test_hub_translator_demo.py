"""The demo pair by its name: real text in, real text out."""

import pytest

from fairseq_specdec.hub import SpeculativeTranslator

TEXTS = ['Click "OK" - the file\'s name is (still) shown: 100% done.', "Open the file.", ""]


@pytest.fixture(scope="module")
def translator(demo):
    return SpeculativeTranslator.from_pretrained("demo_ende", strategy="gad", device="cpu")


def test_text_in_and_text_out(translator, demo):
    results = translator.translate(TEXTS)
    assert results[1].text == "Öffnen Sie die Datei."
    assert all("@@" not in r.text and "@-@" not in r.text and "&" not in r.text for r in results)
    assert results[2].text == ""
    greedy = SpeculativeTranslator.from_pretrained(demo, strategy="greedy", device="cpu")
    assert [r.tokens for r in greedy.translate(TEXTS)] == [r.tokens for r in results]
    assert sum(r.iterations for r in results) < sum(len(r.tokens) for r in results)


def test_it_streams(translator):
    pieces = list(translator.translate_stream(TEXTS[0]))
    assert len(pieces) > 1
    assert "".join(pieces) == translator.translate(TEXTS[0]).text
