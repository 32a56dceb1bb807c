"""What clients' codes mean in the codes of NLLB, mBART-50 and M2M-100."""

import functools
import json

import pytest
from hf_folders import converted

from fairseq_specdec.hub.language_codes import matching, short


@pytest.fixture(scope="module")
def codes(tmp_path_factory):
    """The languages of a converted family."""

    @functools.cache
    def of(family):
        folder = tmp_path_factory.mktemp(family)
        converted(family, folder)
        description = json.loads((folder / "converted.json").read_text(encoding="utf-8"))
        return sorted(description["languages"])

    return of


@pytest.mark.parametrize(
    "asked, nllb, mbart50, m2m_100",
    [
        ("de", "deu_Latn", "de_DE", "de"),
        ("DEU", "deu_Latn", "de_DE", "de"),
        ("de-AT", "deu_Latn", "de_DE", "de"),
        ("zh", "zho_Hans", "zh_CN", "zh"),
        ("zh-TW", "zho_Hant", None, "zh"),
        ("sr", "srp_Cyrl", None, "sr"),
        ("no", "nob_Latn", None, "no"),
        ("ar", "arb_Arab", "ar_AR", "ar"),
        ("fa", "pes_Arab", "fa_IR", "fa"),
        ("ks-Deva", "kas_Deva", None, None),
        ("ace", "ace_Latn", None, None),
        ("pt-BR", "por_Latn", "pt_XX", "pt"),
        ("nonsense", None, None, None),
    ],
)
def test_a_code_means_one_language_or_none(codes, asked, nllb, mbart50, m2m_100):
    for family, code in (("nllb", nllb), ("mbart50", mbart50), ("m2m_100", m2m_100)):
        assert matching(asked, codes(family)) == ([code] if code else []), family


@pytest.mark.parametrize("family, least", [("nllb", 110), ("mbart50", 52), ("m2m_100", 0)])
def test_short_codes_mean_what_they_are_short_for(codes, family, least):
    known = codes(family)
    names = {code: short(code, known) for code in known}
    given = {code: name for code, name in names.items() if name}
    assert len(given) >= least and len(set(given.values())) == len(given)
    for code, name in given.items():
        assert matching(name, known) == [code]
    for code in known:
        assert matching(code.upper(), known) == [code]
