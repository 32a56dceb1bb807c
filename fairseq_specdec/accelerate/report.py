"""``report.html``: what came of it, in sentences, figures and the command to decode with."""

from __future__ import annotations

import shlex
from html import escape
from typing import Any, Dict, List

from ..io.atomic import write_text
from .commands import WAYS, Job, decode
from .state import State
from .verifier import Fitting

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 sans-serif; margin: 2em auto; max-width: 50em; padding: 0 1em }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25em .8em; text-align: right; border-bottom: 1px solid #8884 }
th:first-child, td:first-child { text-align: left }
div { overflow-x: auto } pre { background: #8882; padding: .8em; white-space: pre-wrap }
"""
# Sooner than this much of stock beam 1, a drafter pays.
PAYS = 1.05
COLUMNS = (
    ("system", "system", "{}"),
    ("same text as beam 1", "identical_percent", "{:.1f}%"),
    ("tokens per iteration", "tok", "{:.2f}"),
    ("ms a sentence", "ms_mean", "{:.1f}"),
    ("speed, beam 1 = 1", "speed_beam1", "{:.2f}"),
)


def fastest(rows: Dict[str, Any]) -> str:
    """The way to decode with the drafter that took the least time."""
    return min(rows.keys() & WAYS.keys(), key=lambda way: float(rows[way]["ms_mean"]))


def verdict(rows: Dict[str, Any]) -> str:
    """Whether the drafter pays, in a sentence or two."""
    gad, greedy = rows[fastest(rows)], rows["greedy"]
    speed = gad["speed_beam1"]
    said = (
        f"With the drafter decoding takes {gad['ms_mean']:.1f} ms a sentence: {speed:.2f} times "
        f"the speed of stock fairseq at beam 1, with {gad['tok']:.2f} tokens per iteration and "
        f"{gad['identical_percent']:.1f}% of the sentences the same."
    )
    if gad["ms_mean"] * PAYS > greedy["ms_mean"]:
        said += (
            f" The drafter does not pay yet: --strategy greedy takes {greedy['ms_mean']:.1f} ms. "
            "Train longer: the same command with more --hours goes on."
        )
    return said


def training(state: State, fitting: Fitting) -> str:
    """What was distilled and trained, in sentences."""
    counts, trained = state.found("distil")["counts"], state.found("train")
    return (
        f"The drafter ({fitting.said}) was trained for {trained['updates']} updates on "
        f"{counts['kept']} sentence pairs that the verifier made, in {trained['seconds'] / 60:.0f} "
        f"minutes; it ended because {trained['why']}. Accepted tokens on validation sentences, "
        f"after each part: {', '.join(f'{each:.2f}' for each in trained['history'])}."
    )


def command(job: Job, rows: Dict[str, Any]) -> str:
    """The command to decode with."""
    return " ".join(map(shlex.quote, decode(job, fastest(rows))))


def _table(rows: List[Dict[str, Any]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title, _, _ in COLUMNS)
    lines = []
    for row in rows:
        cells = [form.format(row[name]) if row.get(name) is not None else "-"
                 for _, name, form in COLUMNS]  # fmt: skip
        lines.append("".join(f"<td>{escape(cell)}</td>" for cell in cells))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<div><table><tr>{head}</tr>{body}</table></div>"


def write(job: Job, state: State, fitting: Fitting) -> None:
    """Write the page."""
    measured = state.found("measure")
    rows = measured["rows"]
    title = f"A drafter for {job.path}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(verdict(rows))}</p>",
        "<h2>Decode</h2>",
        f"<pre>{escape(command(job, rows))}</pre>",
        "<h2>Figures</h2>",
        f"<p>{measured['sentences']} validation sentences, one at a time, {job.threads} thread"
        f"{'s' if job.threads > 1 else ''}{', on the CPU' if job.cpu else ''}.</p>",
        _table(list(rows.values())),
        "<h2>How it was made</h2>",
        f"<p>{escape(training(state, fitting))}</p>",
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += f"<title>{escape(title)}</title><style>{STYLE}</style>"
    body = "\n".join(parts)
    text = f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'
    write_text(job.file("report.html"), text)
