"""Which pair a request asks for."""

from types import SimpleNamespace

import pytest

from fairseq_specdec.io.local_http import RefusedError
from fairseq_specdec.serve.pairs import Pairs

NAMES = ("source", "target")
LANGUAGES = [("en", "de"), ("en", "pt"), ("fr", "de"), ("en", "pt_BR"), ("zh-Hans", "en")]
PAIRS = Pairs([SimpleNamespace(languages=each) for each in LANGUAGES])


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
    assert PAIRS.asked(source, target, NAMES).languages == languages


@pytest.mark.parametrize(
    "source, target, says",
    [
        (None, "de", "source must be one of en, fr"),
        ("fr", "pt", "source 'fr' is not supported; there is en"),
        ("en", "fr", "target 'fr' is not supported; there is de, pt, pt_BR, en"),
        ("zh-TW", "en", r"source 'zh-TW' is not supported; there is zh-Hans \(zh\)$"),
        ("en", ["de"], r"target \['de'\] is not supported"),
        ("en", None, "target None is not supported"),
    ],
)
def test_other_pairs_are_refused(source, target, says):
    with pytest.raises(RefusedError, match=says):
        PAIRS.asked(source, target, NAMES)


def test_languages_are_listed_once():
    assert PAIRS.sources() == ["en", "fr", "zh-Hans", "zh"]
    assert PAIRS.targets() == ["de", "pt", "pt_BR", "en"] and PAIRS.targets("fr") == ["de"]


SEVERAL = [
    ("eng_Latn", "deu_Latn"), ("eng_Latn", "zho_Hant"), ("deu_Latn", "pt_BR"),
    ("deu_Latn", "pt_PT"),
]  # fmt: skip


def test_models_codes_are_found_by_short_ones():
    """Which are listed too; one that several codes fit is asked for again."""
    pairs = Pairs([SimpleNamespace(languages=each) for each in SEVERAL])
    assert pairs.asked("EN-GB", "de", NAMES).languages == SEVERAL[0]
    assert pairs.asked("en", "zh-TW", NAMES).languages == SEVERAL[1]
    assert pairs.sources() == ["eng_Latn", "deu_Latn", "en", "de"]
    targets = pairs.targets("en")
    assert targets == pairs.targets("eng_Latn") == ["deu_Latn", "zho_Hant", "de", "zh-hant"]
    assert pairs.source_of(pairs.services[0]) == "en"
    with pytest.raises(RefusedError, match="target 'pt' is one of pt_BR, pt_PT; name it"):
        pairs.asked("de", "pt", NAMES)
    there = r"there is deu_Latn \(de\), zho_Hant \(zh-hant\), pt_BR, pt_PT$"
    with pytest.raises(RefusedError, match=there):
        pairs.asked("en", "zh", NAMES)
