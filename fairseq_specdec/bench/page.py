"""The results of ``specdec-bench`` as one HTML page that needs no other file."""

from __future__ import annotations

import base64
import json
from html import escape
from typing import Any, Dict, List, Sequence

from . import tables
from .plots import Picture

STYLE = """
body { font: 15px/1.45 sans-serif; margin: 2em auto; max-width: 75em; color: #222 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1em 0 }
th, td { padding: .25em .6em; text-align: right; white-space: nowrap }
tr { border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left }
div { overflow-x: auto } img { max-width: 100% } figcaption { color: #555 }
.warning { background: #fdd; border: 1px solid #c00; padding: .5em .8em }
pre { background: #f5f5f5; padding: .8em; white-space: pre-wrap }
"""


def _in(tag: str, text: str) -> str:
    """Text, escaped, in an element."""
    return f"<{tag}>{escape(text)}</{tag.split()[0]}>"


def _table(columns: Sequence[tables.Column], rows: Sequence[Dict[str, Any]]) -> str:
    head, *body = tables.cells(columns, rows)
    lines = [[_in("th", cell) for cell in head], *([_in("td", c) for c in line] for line in body)]
    return f"<div><table>{''.join('<tr>' + ''.join(line) for line in lines)}</table></div>"


def page(run: Dict[str, Any], pictures: Sequence[Picture]) -> str:
    title, notice = tables.title(run), [run["notice"]] if "notice" in run else []
    parts: List[str] = [_in("h1", title)]
    parts += [_in('p class="warning"', text) for text in [*notice, *run["warnings"]]]
    for part in run["runs"]:
        parts.append(f"<h2>Batch size {part['batch_size']}</h2>")
        parts += [_table(columns, part["rows"]) for columns in (tables.SPEED, tables.TIME)]
        parts += [_in("p", text) for text in filter(None, [tables.conclusion(part)])]
    parts.append(f"<ul>{''.join(_in('li', line) for line in tables.legend(run))}</ul>")
    for picture in pictures:
        data, caption = base64.b64encode(picture.png).decode("ascii"), escape(picture.caption)
        parts.append(f'<figure><img alt="{caption}" src="data:image/png;base64,{data}">')
        parts.append(f"<figcaption>{caption}</figcaption></figure>")
    kept = ("replay", "settings", "provenance", "systems")
    facts = json.dumps({key: run[key] for key in kept if key in run}, indent=1, ensure_ascii=False)
    parts += ["<h2>How it was measured</h2>", _in("pre", run["provenance"]["command"])]
    parts.append(_in("pre", facts))
    head = f'<meta charset="utf-8">{_in("title", title)}<style>{STYLE}</style>'
    body = "\n".join(parts)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'
