"""Traces as one HTML page that needs no network and runs no script but its own."""

import base64
import datetime
import hashlib
import html
import json
import pkgutil
from collections.abc import Sequence
from typing import Any

from fairseq_specdec.decoding.iteration import VERDICTS

from .compare import TracedSystem, settings_text
from .record import Trace

HERE = "fairseq_specdec.trace"

TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; {policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
<p class="lead">A drafter proposes tokens; the verifier checks them all in one pass and keeps the
beginning that it agrees with. Each numbered row is one such iteration. Point at a token to read
what became of it.
<span class="quiet">Page of {made}.</span></p>
<noscript><p>This page draws itself with JavaScript, which is off. In a terminal,
<code>specdec-trace show</code> prints the same.</p></noscript>
<main id="app"></main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""

# Characters with which text could end a script element or a JavaScript line.
ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def embedded(value: Any) -> str:
    """JSON that is safe in a script element, whatever text is in it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).translate(ESCAPED)


def part(package: str, name: str) -> str:
    """The text of a file that is installed beside the modules of a package."""
    data = pkgutil.get_data(package, name)
    assert data is not None, f"the package is not whole: no {name}"
    return data.decode("utf-8")


def style_and_script(package: str) -> tuple[str, str]:
    """What a page of ``package`` is styled and drawn by: ``shared.*`` of this one, then its own."""
    style, script = (
        part(HERE, f"shared.{kind}") + part(package, f"page.{kind}") for kind in ("css", "js")
    )
    return style, script


def digest(text: str) -> str:
    """As Content-Security-Policy names an inline script or style: nothing else may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()


def _sentence(number: int, systems: Sequence[TracedSystem]) -> dict[str, Any]:
    traces = {i: s.traces[number] for i, s in enumerate(systems) if number in s.traces}
    first: Trace = next(iter(traces.values()))
    runs: list[dict[str, Any]] = []
    for i, trace in traces.items():
        run = trace.to_dict()
        runs.append(
            {
                "system": i,
                "score": run["score"],
                "output": run["output"],
                "text": run["output_text"],
                "iterations": run["iterations"],
            }
        )
    return {"id": number, "source": first.source, "text": first.source_text, "runs": runs}


def page(systems: Sequence[TracedSystem], ids: Sequence[int], total: int, title: str) -> str:
    data = {
        "systems": [{"name": s.name, "settings": settings_text(s.settings)} for s in systems],
        "verdicts": VERDICTS,
        "total": total,
        "sentences": [_sentence(number, systems) for number in ids],
    }
    style, script = style_and_script(HERE)
    policy = f"style-src '{digest(style)}'; script-src '{digest(script)}'; base-uri 'none'"
    return TEMPLATE.format(
        title=html.escape(title), made=datetime.date.today().isoformat(),
        policy=policy + "; form-action 'none'", style=style, data=embedded(data), script=script,
    )  # fmt: skip
