"""roff escapes and macro arguments, as far as running text of manual pages needs them."""

import re

CHARACTERS = dict(
    pair.split()
    for pair in (
        "em —|en –|aq '|dq \"|cq ’|oq ‘|lq “|rq ”|Fo «|Fc »|fo ‹|fc ›|bu •|co ©|rg ®|ha ^|ti ~|"
        "ga `|rs \\|mu ×|Bq „|bq ‚|+- ±|-> ->|<- <-|ss ß|:a ä|:o ö|:u ü|:A Ä|:O Ö|:U Ü|hy -|"
        "lB [|rB ]|eu €|<= ≤|>= ≥|!= ≠|tm ™"
    ).split("|")
)
CHARACTERS["ba"] = "|"


def unroff(text: str) -> str:
    """Plain text of a line of roff: fonts, sizes and motions leave, characters are resolved."""
    text = re.sub(r'\\".*$', "", text)
    text = re.sub(r"\\f(?:\[[^\]]*\]|\(..|.)", "", text)
    text = re.sub(r"\\s[-+]?\d", "", text)
    text = re.sub(r"\\[hvwlLDd]'[^']*'", "", text)
    text = re.sub(r"\\\*(?:\((?:lq|rq)|\[(?:lq|rq)\])", '"', text)
    text = re.sub(r"\\\*(?:\[[^\]]*\]|\(..|.)", "", text)
    text = re.sub(r"\\\[u([0-9A-F]{4,5})\]", lambda m: chr(int(m.group(1), 16)), text)
    text = re.sub(r"\\\(([^\s]{2})", lambda m: CHARACTERS.get(m.group(1), ""), text)
    text = re.sub(r"\\\[([^\]]*)\]", lambda m: CHARACTERS.get(m.group(1), ""), text)
    text = re.sub(r"\\[ ~0]", " ", text)
    text = text.replace("\\-", "-").replace("\\e", "\\")
    text = re.sub(r"\\[mM](?:\[[^\]]*\]|\(..|.)", "", text)
    text = re.sub(r"\\[&|^%:/,cp)!{}]", "", text)
    return text.replace("\\'", "'").replace("\\`", "`").replace("\\.", ".")


def macro_arguments(text: str) -> list[str]:
    """Arguments of a macro call: blank-separated, or quoted with `""` for a quote."""
    matches = re.finditer(r'"((?:[^"]|"")*)"?|(\S+(?:\\ \S*)*)', text)
    return [m.group(2) if m.group(1) is None else m.group(1).replace('""', '"') for m in matches]
