"""Codes of languages: those of clients (``de``, ``en-GB``), of models (``deu_Latn``, ``de_DE``)."""

import functools
from collections.abc import Sequence

from langcodes import Language, LanguageTagError, standardize_tag, tag_distance

# Members of macrolanguages that CLDR does not count as the usual one, and codes of models.
_USUAL = {"fuv": "ff", "kor-hang": "ko", "ns": "nso", "pbt": "ps", "quy": "qu", "tgl": "tl"}
# What a toy's languages are often called; ISO 639-3 has two small languages of these codes.
_NAMES = {"src", "tgt"}
# The largest distance of two codes that mean one language: regions differ by 5, Norwegian
# and Bokmål by 1, the nearest other languages by 8 (langcodes.tag_distance).
_ONE_LANGUAGE = 5


def _tag(code: str) -> str | None:
    """A code as BCP 47 spells it; None for a name that is no code of a language."""
    code = _plain(code).removesuffix("-xx")
    code = _USUAL.get(code, code)
    language, dash, rest = code.partition("-")
    if language in _NAMES:
        return None
    try:
        return standardize_tag(_USUAL.get(language, language) + dash + rest, macro=True)
    except LanguageTagError:
        return None


def language_of(code: str) -> str:
    """The language of a code, by ISO 639-1 where that has it: ``de`` of ``deu_Latn``."""
    language = _plain(code).partition("-")[0]
    tag = _tag(language) or language
    return "tl" if tag == "fil" else tag.partition("-")[0]


def _plain(code: str) -> str:
    return code.lower().replace("_", "-")


@functools.lru_cache(maxsize=4096)
def _distance(asked: str, code: str) -> float:
    known = _tag(code)
    # A code of a model without script and region means the language in any.
    wanted = _tag(asked if "-" in _plain(code) else _plain(asked).partition("-")[0])
    return tag_distance(wanted, known) if wanted and known else float("inf")


def matching(asked: str, codes: Sequence[str]) -> list[str]:
    """Those of ``codes`` that a client's code means: one, none, or several it leaves open.

    A code without a script means the usual one of its language; of several regions, the nearest.
    """
    exact = [code for code in codes if _plain(code) == _plain(asked)]
    distances = {code: _distance(asked, code) for code in codes}
    least = min(distances.values(), default=0.0)
    return exact or [code for code in codes if distances[code] == least <= _ONE_LANGUAGE]


def short(code: str, codes: Sequence[str]) -> str | None:
    """The shortest code of ISO 639-1 that means one of ``codes``; None where that is its own."""
    tag = Language.get(_tag(code) or "und")
    language = language_of(code)
    for part in ("", tag.script, tag.territory):
        name = f"{language}-{part}".lower() if part else language
        if len(language) == 2 and matching(name, codes) == [code]:
            return None if _plain(code) == name else name
    return None
