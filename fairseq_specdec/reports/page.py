"""Reports as HTML pages that need no other file: one base page, one style, pictures as SVG."""

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined

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
rect, circle { fill: #3b82c4 }
path, polyline { fill: none; stroke: currentColor } polyline { stroke: #3b82c4; stroke-width: 2 }
"""
BASE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title><style>{{ style | safe }}</style></head>
<body><main>
<h1>{{ title }}</h1>
{% block body %}{% endblock %}
</main></body></html>
"""
# What a page imports: a table that is scrolled by keys too; bars from 0, with their values behind
# them; a line on axes whose ends are the least and the greatest values.
PARTS = """
{%- macro table(head, rows) -%}
<div tabindex="0"><table>
<tr>{% for each in head %}<th scope="col">{{ each }}</th>{% endfor %}</tr>
{% for row in rows -%}
<tr><th scope="row">{{ row[0] }}</th>{% for each in row[1:] %}<td>{{ each }}</td>{% endfor %}</tr>
{% endfor %}</table></div>
{%- endmacro -%}
{%- macro svg(height, title) -%}
<figure><svg viewBox="0 0 560 {{ height }}" role="img" aria-label="{{ title }}">{{ caller() }}</svg>
<figcaption>{{ title }}</figcaption></figure>
{%- endmacro -%}
{%- macro text(x, y, what, anchor="start") -%}
<text x="{{ x | round(1) }}" y="{{ y | round(1) }}" text-anchor="{{ anchor }}">{{ what }}</text>
{%- endmacro -%}
{%- macro bars(title, values, form) -%}
{% set longest = values | map(attribute=1) | max or 1.0 %}
{% call svg(24 * values | length, title) %}{% for name, value in values %}
{% set y, wide = 24 * loop.index0, 280 * value / longest %}
{{ text(202, y + 16, name, "end") }}
<rect x="210" y="{{ y + 4 }}" width="{{ wide | round(1) }}" height="16"/>
{{ text(216 + wide, y + 16, form.format(value)) }}
{% endfor %}{% endcall %}
{%- endmacro -%}
{%- macro line(title, points, xlabel, ylabel) -%}
{% set xs, ys = points | map(attribute=0) | list, points | map(attribute=1) | list %}
{% set left, right, low, high = xs | min, xs | max, ys | min, ys | max %}
{% set places = [] %}
{% for x, y in points %}{{ places.append((
  (44 + 472 * (x - left) / ((right - left) or 1)) | round(1),
  (156 - 112 * (y - low) / ((high - low) or 1)) | round(1))) or "" }}{% endfor %}
{% call svg(200, title) %}<path d="M44 44V156H516"/>
<polyline points="{% for x, y in places %}{{ x }},{{ y }} {% endfor %}"/>
{% for x, y in places %}<circle cx="{{ x }}" cy="{{ y }}" r="3"/>{% endfor %}
{% for x, end in [(44, left), (516, right)] %}
{{ text(x, 172, "{:g}".format(end), "middle") }}{% endfor %}
{{ text(280, 190, xlabel, "middle") }}{{ text(38, 156, "{:.2f}".format(low), "end") }}
{{ text(38, 48, "{:.2f}".format(high), "end") }}{{ text(44, 30, ylabel) }}{% endcall %}
{%- endmacro -%}
"""


def page(body: str, title: str, values: Mapping[str, Any]) -> str:
    """A page. ``body``: a template in jinja2's language, which may use the macros ``table``,
    ``bars`` and ``line``; whatever it prints of ``values`` is escaped."""
    macros = '{% from "parts" import table, bars, line with context %}'
    whole = '{% extends "base" %}' + macros + "{% block body %}" + body + "{% endblock %}"
    templates = {"base": BASE, "parts": PARTS, "page": whole}
    environment = Environment(
        loader=DictLoader(templates), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("page").render(title=title, style=STYLE, **values) + "\n"


def cells(rows: Sequence[Mapping[str, Any]], columns: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Rows as text, by (key, form) of each column; ``-`` where a row has no value."""
    return [
        [form.format(row[key]) if row.get(key) is not None else "-" for key, form in columns]
        for row in rows
    ]
