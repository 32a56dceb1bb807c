"""The results of ``specdec-bench`` as one HTML page that needs no other file."""

from __future__ import annotations

import base64
import json
from html import escape
from typing import Any, Dict, List, Sequence

from . import tables
from .plots import Picture

STYLE = """
body { font: 15px/1.45 sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1em 0 }
th, td { padding: .25em .6em; text-align: right; border-bottom: 1px solid #ddd }
th, td { white-space: nowrap }
th:first-child, td:first-child { text-align: left }
.wide { overflow-x: auto }
.warning { background: #fdd; border: 1px solid #c00; padding: .5em .8em }
figure { margin: 1.5em 0 } img { max-width: 100% } figcaption { color: #555 }
pre { background: #f5f5f5; padding: .8em; overflow-x: auto; white-space: pre-wrap }
"""


def _table(columns: Sequence[tables.Column], rows: Sequence[Dict[str, Any]]) -> str:
    head, *body = tables.cells(columns, rows)

    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

    lines = [line(head, "th"), *(line(cells, "td") for cells in body)]
    return '<div class="wide"><table>\n' + "\n".join(lines) + "\n</table></div>"


def _image(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode("ascii")
    caption = escape(picture.caption)
    return (
        f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def page(run: Dict[str, Any], pictures: Sequence[Picture]) -> str:
    """The page.

    Args:
        run: what ``--json`` writes.
        pictures: of it.
    """
    title = escape(tables.title(run))
    parts: List[str] = [f"<h1>{title}</h1>"]
    if "replay" in run:
        parts.append(f'<p class="warning">{escape(run["replay"]["notice"])}</p>')
    parts += [f'<p class="warning">{escape(text)}</p>' for text in run["warnings"]]
    for part in run["runs"]:
        parts.append(f"<h2>Batch size {part['batch_size']}</h2>")
        parts.append(_table(tables.speed(run), part["rows"]))
        parts.append(_table(tables.TIME, part["rows"]))
    parts.append("<ul>" + "".join(f"<li>{escape(x)}</li>" for x in tables.legend(run)) + "</ul>")
    parts += [_image(picture) for picture in pictures]
    kept = ("replay", "settings", "provenance", "systems")
    facts = {key: run[key] for key in kept if key in run}
    parts.append("<h2>How it was measured</h2>")
    parts.append(f"<pre>{escape(run['provenance']['command'])}</pre>")
    parts.append(f"<pre>{escape(json.dumps(facts, indent=1, ensure_ascii=False))}</pre>")
    head = f'<meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>'
    body = "\n".join(parts)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'
