"""The results of ``specdec-bench`` as one HTML page that needs no other file."""

import base64
import json
from collections.abc import Sequence
from html import escape
from typing import Any

from . import tables
from .plots import Picture

STYLE = """
:root { color-scheme: light dark; background: Canvas; color: CanvasText }
body { font: 15px/1.45 sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em }
h1, p, li, figcaption { overflow-wrap: anywhere }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1em 0 }
th, td { padding: .25em .6em; text-align: right; white-space: nowrap }
tr { border-bottom: 1px solid #8884 }
th:first-child, td:first-child { text-align: left }
div { overflow-x: auto } figure { margin: 1em 0 } img { max-width: 100% }
.warning { background: #d002; border: 1px solid #c00; padding: .5em .8em }
pre { background: #8882; padding: .8em; white-space: pre-wrap; overflow-wrap: anywhere }
summary { font-size: 1.3em; font-weight: bold; cursor: pointer }
"""


def _in(tag: str, text: str) -> str:
    """Text, escaped, in an element."""
    return f"<{tag}>{escape(text)}</{tag.split()[0]}>"


def _table(columns: Sequence[tables.Column], rows: Sequence[dict[str, Any]]) -> str:
    head, *body = tables.cells(columns, rows)
    lines = [[_in('th scope="col"', cell) for cell in head]]
    lines += [[_in('th scope="row"', line[0]), *(_in("td", c) for c in line[1:])] for line in body]
    table = f"<table>{''.join('<tr>' + ''.join(line) for line in lines)}</table>"
    return f'<div tabindex="0">{table}</div>'  # scrolled by keys too


def page(run: dict[str, Any], pictures: Sequence[Picture]) -> str:
    title, notice = tables.title(run), [run["notice"]] if "notice" in run else []
    parts: list[str] = [_in("h1", title)]
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
    parts += ["<details><summary>How it was measured</summary>"]
    parts += [_in("pre", run["provenance"]["command"]), _in("pre", facts), "</details>"]
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{view}{_in("title", title)}<style>{STYLE}</style>'
    body = "<main>\n" + "\n".join(parts) + "\n</main>"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'
