"""Which pair a request asks for."""

from types import SimpleNamespace

import pytest

from fairseq_specdec.serve.bodies import RefusedError
from fairseq_specdec.serve.pairs import Pairs

NAMES = ("source", "target")
LANGUAGES = [("en", "de"), ("en", "pt"), ("fr", "de"), ("en", "pt_BR"), ("zh-Hans", "en")]
ODD = [("aa", "xx"), ("bb", "xx")]  # that the library does not have


def pairs_of(languages):
    return Pairs([SimpleNamespace(languages=each, check=list) for each in languages])


PAIRS = pairs_of(LANGUAGES)


@pytest.mark.parametrize(
    "source, target, languages",
    [
        ("en", "de", ("en", "de")),
        ("FR", "DE-AT", ("fr", "de")),
        ("en-US", "pt", ("en", "pt")),
        ("en", "pt-br", ("en", "pt_BR")),
        ("en", "PT-PT", ("en", "pt")),
        (None, "pt", ("en", "pt")),
        ("zh_hans", "en-GB", ("zh-Hans", "en")),
        ("zh-CN", "en", ("zh-Hans", "en")),
    ],
)
def test_a_pair_is_found(source, target, languages):
    assert PAIRS.asked(source, target, NAMES, [])[0].languages == languages


@pytest.mark.parametrize(
    "codes, text, code",
    [
        (["en", "de"], "Wo ist der Bahnhof?", "de"),
        (["eng_Latn", "deu_Latn", "nob"], "Where is the station?", "eng_Latn"),
        (["zho_Hant", "zho_Hans", "en"], "车站在哪里?", "zho_Hans"),
        (["xx", "de"], "Where is the station?", "de"),
    ],
)
def test_a_language_is_detected(codes, text, code):
    pairs = pairs_of([(each, "fr") for each in codes])
    service, percent = pairs.asked(None, "fr", NAMES, [text, " "])
    assert service.languages == (code, "fr") and 60 < percent <= 100


@pytest.mark.parametrize(
    "source, target, says",
    [
        (None, "xx", "source must be one of aa, bb"),
        ("fr", "pt", "source 'fr' is not supported; there is en"),
        ("en", "fr", "target 'fr' is not supported; there is de, pt, pt_BR, en, xx"),
        ("zh-TW", "en", r"source 'zh-TW' is not supported; there is zh-Hans \(zh\)$"),
        ("en", ["de"], r"target \['de'\] is not supported"),
        ("en", None, "target None is not supported"),
    ],
)
def test_other_pairs_are_refused(source, target, says):
    with pytest.raises(RefusedError, match=says):
        pairs_of([*LANGUAGES, *ODD]).asked(source, target, NAMES, [])


def test_languages_are_listed_once():
    assert PAIRS.sources() == ["en", "fr", "zh-Hans", "zh"]
    assert PAIRS.targets() == ["de", "pt", "pt_BR", "en"] and PAIRS.targets("fr") == ["de"]


SEVERAL = [
    ("eng_Latn", "deu_Latn"), ("eng_Latn", "zho_Hant"), ("deu_Latn", "pt_BR"),
    ("deu_Latn", "pt_PT"),
]  # fmt: skip


def test_models_codes_are_found_by_short_ones():
    """Which are listed too; one that several codes fit is asked for again."""
    pairs = pairs_of(SEVERAL)
    assert pairs.asked("EN-GB", "de", NAMES, [])[0].languages == SEVERAL[0]
    assert pairs.asked("en", "zh-TW", NAMES, [])[0].languages == SEVERAL[1]
    assert pairs.sources() == ["eng_Latn", "deu_Latn", "en", "de"]
    targets = pairs.targets("en")
    assert targets == pairs.targets("eng_Latn") == ["deu_Latn", "zho_Hant", "de", "zh-hant"]
    assert pairs.source_of(pairs.services[0]) == "en"
    with pytest.raises(RefusedError, match="target 'pt' is one of pt_BR, pt_PT; name it"):
        pairs.asked("de", "pt", NAMES, [])
    there = r"there is deu_Latn \(de\), zho_Hant \(zh-hant\), pt_BR, pt_PT$"
    with pytest.raises(RefusedError, match=there):
        pairs.asked("en", "zh", NAMES, [])
