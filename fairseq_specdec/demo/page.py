"""The page of the demo: one document, nothing from elsewhere, no script but its own."""

import datetime
import html
import re
from typing import NamedTuple

from fairseq_specdec.decoding.iteration import VERDICTS
from fairseq_specdec.trace.compare import settings_text
from fairseq_specdec.trace.page import digest, embedded, part, style_and_script

from .race import CHARACTERS, WIDEST
from .racers import Racers

HERE = "fairseq_specdec.demo"


class Page(NamedTuple):
    """What is sent."""

    body: bytes
    policy: str


def page_of(racers: Racers, repeats: int) -> Page:
    data = {
        "strategies": [
            {
                "name": name,
                "settings": settings_text(translator.settings),
                "wide": name in racers.wide,
            }
            for name, translator in racers.translators.items()
        ],
        "examples": racers.examples,
        "verdicts": VERDICTS,
        "characters": CHARACTERS,
        "repeats": repeats,
        "widest": WIDEST,
    }
    style, script = style_and_script(HERE)
    source, target = racers.languages
    filled = {
        "@TITLE@": html.escape(f"Strategies race: {source} to {target}"),
        "@VERIFIER@": html.escape(racers.verifier),
        "@DATE@": datetime.date.today().isoformat(),
        "@CHARACTERS@": str(CHARACTERS),
        "@STYLE@": style,
        "@DATA@": embedded(data),
        "@SCRIPT@": script,
    }
    # In one pass: what is filled in is not searched for names again.
    body = re.sub(r"@[A-Z]+@", lambda name: filled[name.group()], part(HERE, "page.html"))
    policy = (
        f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return Page(body.encode("utf-8"), policy)
