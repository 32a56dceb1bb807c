"""HTML pages that need no other file: one base page, and of reports one style, pictures as SVG."""

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, StrictUndefined

STYLE = """
:root { color-scheme: light dark; background: Canvas; color: CanvasText }
body { font: 16px/1.5 sans-serif; margin: 2em auto; max-width: 50em; padding: 0 1em }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25em .8em; text-align: right; border-bottom: 1px solid #8884 }
tr > :first-child { text-align: left; font-weight: inherit }
h1, li { overflow-wrap: anywhere }
div { overflow-x: auto } figure { margin: 1em 0 } figcaption { font-size: .9em }
pre { background: #8882; padding: .8em; white-space: pre-wrap; overflow-wrap: anywhere }
svg { width: 100%; max-width: 40em; font-size: 13px; fill: currentColor }
rect { fill: #3b82c4 }
"""
BASE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">{{ meta | safe }}
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{{ title }}</title><style>{{ style | safe }}</style></head>
<body><main>
<h1>{{ title }}</h1>
BODY
</main></body></html>
"""
# What a page may use: a table that is scrolled by keys too; bars from 0, with their values behind
# them.
MACROS = """{%- macro table(head, rows) -%}
<div tabindex="0"><table>
<tr>{% for each in head %}<th scope="col">{{ each }}</th>{% endfor %}</tr>
{% for row in rows -%}
<tr><th scope="row">{{ row[0] }}</th>{% for each in row[1:] %}<td>{{ each }}</td>{% endfor %}</tr>
{% endfor %}</table></div>
{%- endmacro -%}
{%- macro bars(title, values, form) -%}
{% set longest = values | map(attribute=1) | max or 1.0 %}
<figure><svg viewBox="0 0 560 {{ 24 * values | length }}" role="img" aria-label="{{ title }}">
{% for name, value in values %}
{% set y, wide = 24 * loop.index0, (280 * value / longest) | round(1) %}
<text x="202" y="{{ y + 16 }}" text-anchor="end">{{ name }}</text>
<rect x="210" y="{{ y + 4 }}" width="{{ wide }}" height="16"/>
<text x="{{ 216 + wide }}" y="{{ y + 16 }}">{{ form.format(value) }}</text>
{% endfor %}</svg>
<figcaption>{{ title }}</figcaption></figure>
{%- endmacro -%}
"""


def page(
    body: str, title: str, values: Mapping[str, Any], style: str = STYLE, meta: str = ""
) -> str:
    """A page.

    Args:
        body: a template in jinja2's language, which may use the macros ``table`` and ``bars``;
            whatever it prints of ``values`` is escaped.
        meta: markup before its style.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(MACROS + BASE.replace("BODY", body))
    return template.render(title=title, style=style, meta=meta, **values) + "\n"


def cells(rows: Sequence[Mapping[str, Any]], columns: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Rows as text, by (key, form) of each column; ``-`` where a row has no value."""
    return [
        [form.format(row[key]) if row.get(key) is not None else "-" for key, form in columns]
        for row in rows
    ]
