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
        ("zh", "en", "source 'zh' is not supported; there is zh-Hans"),
        ("en", ["de"], r"target \['de'\] is not supported"),
        ("en", None, "target None is not supported"),
    ],
)
def test_other_pairs_are_refused(source, target, says):
    with pytest.raises(RefusedError, match=says):
        PAIRS.asked(source, target, NAMES)


def test_languages_are_listed_once():
    assert PAIRS.sources() == ["en", "fr", "zh-Hans"]
    assert PAIRS.targets() == ["de", "pt", "pt_BR", "en"] and PAIRS.targets("fr") == ["de"]
