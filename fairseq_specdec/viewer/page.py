"""Pages that need no network and run no script but their own."""

import base64
import datetime
import hashlib
import html
import json
import pkgutil
from typing import Any, NamedTuple

_TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p class="lead">A drafter proposes tokens; the verifier checks them all in one pass and keeps the
beginning that it agrees with. Each numbered row is one such iteration. Point at a token to read
what became of it. <span class="quiet">Page of {made}.</span></p>
<noscript><p>This page draws itself with JavaScript, which is off.</p></noscript>
<div id="app"></div>
</main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""

# Characters with which text could end a script element or a JavaScript line.
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


class Page(NamedTuple):
    """A document, and its Content-Security-Policy as a header."""

    text: str
    policy: str


def page(title: str, name: str, data: Any) -> Page:
    """A page of the viewer. ``name``: of its script beside this module, which draws ``data``."""
    style, script = _part("viewer.css"), _part("viewer.js") + _part(f"{name}.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    # JSON that is safe in a script element, whatever text is in it
    embedded = json.dumps(data, ensure_ascii=False, allow_nan=False).translate(_ESCAPED)
    text = _TEMPLATE.format(
        title=html.escape(title), made=datetime.date.today().isoformat(), policy=policy,
        style=style, data=embedded, script=script,
    )  # fmt: skip
    return Page(text, f"{policy}; frame-ancestors 'none'")


def _part(name: str) -> str:
    """The text of a file that is installed beside this module."""
    data = pkgutil.get_data(__name__, name)
    assert data is not None, f"the package is not whole: no {name}"
    return data.decode("utf-8")


def _digest(text: str) -> str:
    """As Content-Security-Policy names an inline script or style: nothing else may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()
