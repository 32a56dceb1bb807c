"""Codes of languages: those of clients (``de``, ``en-GB``), of models (``deu_Latn``, ``de_DE``)."""

import re
from collections.abc import Sequence
from typing import NamedTuple

# ISO 639-3, of models that use it, and ISO 639-1; of a macrolanguage its usual member.
_PAIRS = """
afr af aka ak als sq amh am arb ar asm as ayr ay azj az bak ba bam bm bel be ben bn bod bo bos bs
bul bg cat ca ces cs cym cy dan da deu de dzo dz ell el eng en epo eo est et eus eu ewe ee fao fo
fij fj fin fi fra fr fuv ff gaz om gla gd gle ga glg gl grn gn guj gu hat ht hau ha heb he hin hi
hrv hr hun hu hye hy ibo ig ind id isl is ita it jav jv jpn ja kan kn kas ks kat ka kaz kk khk mn
khm km kik ki kin rw kir ky kmr ku knc kr kon kg kor ko lao lo lim li lin ln lit lt ltz lb lug lg
lvs lv mal ml mar mr mkd mk mlt mt mri mi mya my nld nl nno nn nob nb npi ne nya ny oci oc ory or
pan pa pbt ps pes fa plt mg pol pl por pt quy qu ron ro run rn rus ru sag sg san sa sin si slk sk
slv sl smo sm sna sn snd sd som so sot st spa es srd sc srp sr ssw ss sun su swe sv swh sw tam ta
tat tt tel te tgk tg tgl tl tha th tir ti tsn tn tso ts tuk tk tur tr twi tw uig ug ukr uk urd ur
uzn uz vie vi wol wo xho xh ydd yi yor yo zho zh zsm ms zul zu fil tl in id iw he ji yi jw jv no nb
ns nso
"""
_WORDS = _PAIRS.split()
_ISO: dict[str, str] = dict(zip(_WORDS[::2], _WORDS[1::2]))
# Scripts of a language that is written in several: without one, and by region.
_SCRIPTS = {
    "az": "latn", "kr": "latn", "ks": "arab", "ku": "latn", "mn": "cyrl", "pa": "guru",
    "sr": "cyrl", "uz": "latn", "zh": "hans", "zh-cn": "hans", "zh-sg": "hans", "zh-tw": "hant",
    "zh-hk": "hant", "zh-mo": "hant",
}  # fmt: skip


class _Tag(NamedTuple):
    """The parts of a code, in lower case; None for what it leaves open."""

    language: str
    script: str | None
    region: str | None


def _tag(code: str) -> _Tag:
    first, *rest = re.split("[-_]", code.lower())
    language = _ISO.get(first, first)
    script = next((part for part in rest if len(part) == 4), None)
    region = next((part for part in rest if len(part) in (2, 3) and part != "xx"), None)
    return _Tag(language, script or _SCRIPTS.get(f"{language}-{region}"), region)


def language_of(code: str) -> str:
    """The language of a code, by ISO 639-1 where that has it: ``de`` of ``deu_Latn``."""
    return _tag(code).language


def _plain(code: str) -> str:
    return code.lower().replace("_", "-")


def matching(asked: str, codes: Sequence[str]) -> list[str]:
    """Those of ``codes`` that a client's code means: one, none, or several it leaves open.

    A code without a script means the usual one of its language. A region that no code has is
    ignored.
    """
    exact = [code for code in codes if _plain(code) == _plain(asked)]
    if exact:
        return exact
    wanted = _tag(asked)
    script = wanted.script or _SCRIPTS.get(wanted.language)
    tags = {code: _tag(code) for code in codes}
    fitting = [
        code for code, tag in tags.items()
        if tag.language == wanted.language and (not script or tag.script in (None, script))
    ]  # fmt: skip
    for region in (wanted.region, None):
        of_region = [code for code in fitting if tags[code].region == region]
        if of_region:
            return of_region
    return fitting


def short(code: str, codes: Sequence[str]) -> str | None:
    """The shortest code of ISO 639-1 that means one of ``codes``; None where that is its own."""
    tag = _tag(code)
    for part in ("", tag.script, tag.region):
        name = f"{tag.language}-{part}" if part else tag.language
        if len(tag.language) == 2 and matching(name, codes) == [code]:
            return None if _plain(code) == name else name
    return None
