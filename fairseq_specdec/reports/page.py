"""HTML pages that need no other file: one base page, and of reports one style."""

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, StrictUndefined

STYLE = """
:root { color-scheme: light dark; background: Canvas; color: CanvasText }
body { font: 16px/1.5 sans-serif; margin: 2em auto; max-width: 50em; padding: 0 1em }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25em .8em; text-align: right; border-bottom: 1px solid #8884 }
tr > :first-child { text-align: left; font-weight: inherit }
h1, li { overflow-wrap: anywhere }
div { overflow-x: auto }
pre { background: #8882; padding: .8em; white-space: pre-wrap; overflow-wrap: anywhere }
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
# What a page may use: a table that is scrolled by keys too.
MACROS = """{%- macro table(head, rows) -%}
<div tabindex="0"><table>
<tr>{% for each in head %}<th scope="col">{{ each }}</th>{% endfor %}</tr>
{% for row in rows -%}
<tr><th scope="row">{{ row[0] }}</th>{% for each in row[1:] %}<td>{{ each }}</td>{% endfor %}</tr>
{% endfor %}</table></div>
{%- endmacro -%}
"""


def page(
    body: str, title: str, values: Mapping[str, Any], style: str = STYLE, meta: str = ""
) -> str:
    """A page.

    Args:
        body: a template in jinja2's language, which may use the macro ``table``; whatever it
            prints of ``values`` is escaped.
        meta: markup before its style.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(MACROS + BASE.replace("BODY", body))
    return template.render(title=title, style=style, meta=meta, **values) + "\n"
