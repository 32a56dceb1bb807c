"""The page of the demo: one document, nothing from elsewhere, no script but its own."""

from __future__ import annotations

import html
import pkgutil
import re
from typing import NamedTuple

from fairseq_specdec.trace.compare import settings_text
from fairseq_specdec.trace.page import digest, embedded
from fairseq_specdec.trace.record import VERDICTS

from .race import CHARACTERS
from .racers import Racers


class Page(NamedTuple):
    """What is sent.

    Attributes:
        body: the document, UTF-8.
        policy: its Content-Security-Policy.
    """

    body: bytes
    policy: str


def _part(name: str) -> str:
    data = pkgutil.get_data(__package__ or "fairseq_specdec.demo", name)
    assert data is not None, f"the package is not whole: no {name}"
    return data.decode("utf-8")


def page_of(racers: Racers, repeats: int) -> Page:
    """The page for these strategies.

    Args:
        racers: who races.
        repeats: timed runs of each.
    """
    data = {
        "strategies": [
            {"name": name, "settings": settings_text(translator.settings)}
            for name, translator in racers.translators.items()
        ],
        "examples": racers.examples,
        "verdicts": VERDICTS,
        "characters": CHARACTERS,
        "repeats": repeats,
    }
    style, script = _part("page.css"), _part("page.js")
    source, target = racers.languages
    filled = {
        "@TITLE@": html.escape(f"Strategies race: {source} to {target}"),
        "@CHARACTERS@": str(CHARACTERS),
        "@STYLE@": style,
        "@DATA@": embedded(data),
        "@SCRIPT@": script,
    }
    # In one pass: what is filled in is not searched for names again.
    body = re.sub(r"@[A-Z]+@", lambda name: filled[name.group()], _part("page.html"))
    policy = (
        f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return Page(body.encode("utf-8"), policy)
