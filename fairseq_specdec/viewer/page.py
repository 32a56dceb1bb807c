"""Pages that need no network and run no script but their own."""

import base64
import hashlib
import importlib.resources
import json
from typing import Any

from fairseq_specdec.reports import page as reports

_BODY = """
<p class="lead">A drafter proposes tokens; the verifier checks them all in one pass and keeps the
beginning that it agrees with. Each numbered row is one such iteration. Point at a token to read
what became of it.</p>
<noscript><p>This page draws itself with JavaScript, which is off.</p></noscript>
<div id="app"></div>
<script type="application/json" id="data">{{ data | safe }}</script>
<script>{{ script | safe }}</script>
"""

# Characters with which text could end a script element or a JavaScript line.
_ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def page(title: str, name: str, data: Any) -> str:
    """A page of the viewer. ``name``: of its script beside this module, which draws ``data``."""
    files = importlib.resources.files(__package__)
    parts = ("viewer.css", "viewer.js", f"{name}.js")
    style, viewer, own = (files.joinpath(part).read_text("utf-8") for part in parts)
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(viewer + own)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    # JSON that is safe in a script element, whatever text is in it
    embedded = json.dumps(data, ensure_ascii=False, allow_nan=False).translate(_ESCAPED)
    values = {"data": embedded, "script": viewer + own}
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return reports.page(_BODY, title, values, style, meta)


def _digest(text: str) -> str:
    """As Content-Security-Policy names an inline script or style: nothing else may run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()
