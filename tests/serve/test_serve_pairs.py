"""Which pair a request asks for."""

import functools
from types import SimpleNamespace

import pytest
from starlette.exceptions import HTTPException

from fairseq_specdec.serve.pairs import Pairs

LANGUAGES = [("en", "de"), ("en", "pt"), ("fr", "de"), ("en", "pt_BR"), ("zh-Hans", "en")]
ODD = [("aa", "xx"), ("bb", "xx")]  # that the library does not have


def pairs_of(languages):
    service = functools.partial(SimpleNamespace, limits=None, check=lambda texts: None)
    return Pairs([service(languages=each) for each in languages])


PAIRS = pairs_of(LANGUAGES)


@pytest.mark.parametrize(
    "source, target, languages",
    [
        ("FR", "DE-AT", ("fr", "de")),
        (None, "pt", ("en", "pt")),
        ("zh-CN", "en-GB", ("zh-Hans", "en")),
    ],
)
def test_a_pair_is_found(source, target, languages):
    assert PAIRS.asked(source, target, [])[0].languages == languages


@pytest.mark.parametrize(
    "codes, text, code",
    [
        (["en", "de"], "Wo ist der Bahnhof?", "de"),
        (["zho_Hant", "zho_Hans", "en"], "车站在哪里?", "zho_Hans"),
        (["xx", "de"], "Where is the station?", "de"),
    ],
)
def test_a_language_is_detected(codes, text, code):
    pairs = pairs_of([(each, "fr") for each in codes])
    service, percent = pairs.asked(None, "fr", [text, " "])
    assert service.languages == (code, "fr") and 60 < percent <= 100


@pytest.mark.parametrize(
    "source, target, says",
    [
        (None, "xx", "the source language must be one of aa, bb"),
        ("fr", "pt", "source 'fr' is not supported; there is en"),
        ("en", "fr", "target 'fr' is not supported; there is de, pt, pt_BR, en, xx"),
        ("zh-TW", "en", r"source 'zh-TW' is not supported; there is zh-Hans \(zh\)$"),
    ],
)
def test_other_pairs_are_refused(source, target, says):
    with pytest.raises(HTTPException, match=says):
        pairs_of([*LANGUAGES, *ODD]).asked(source, target, [])


def test_models_codes_are_found_by_short_ones():
    """Which are listed too; one that several codes fit is asked for again."""
    several = [("eng_Latn", "deu_Latn"), ("eng_Latn", "zho_Hant"), ("deu_Latn", "aka_Latn")]
    pairs = pairs_of([*several, ("deu_Latn", "twi_Latn")])
    for asked, languages in zip((("EN-GB", "de"), ("en", "zh-TW")), several):
        assert pairs.asked(*asked, [])[0].languages == languages
    assert pairs.sources() == ["eng_Latn", "deu_Latn", "en", "de"]
    assert pairs.targets("en") == ["deu_Latn", "zho_Hant", "de", "zh-hant"]
    assert pairs.source_of(pairs.services[0]) == "en"
    with pytest.raises(HTTPException, match="target 'ak' is one of aka_Latn, twi_Latn; name it"):
        pairs.asked("de", "ak", [])
    there = r"there is deu_Latn \(de\), zho_Hant \(zh-hant\), aka_Latn, twi_Latn$"
    with pytest.raises(HTTPException, match=there):
        pairs.asked("en", "zh", [])
