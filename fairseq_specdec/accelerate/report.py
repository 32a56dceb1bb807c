"""``report.html``: what is fastest for which use, the commands for it, figures, how it was made."""

from html import escape
from typing import Any, Dict, List, Sequence

from ..data.merge import losses
from ..io.atomic import write_text
from . import pictures
from .commands import WAYS, Job, row_of
from .measuring import Best, fastest, recommend
from .state import State
from .verifier import Fitting

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
# How many times as fast decoding must be for a drafter to pay.
LEAST_GAIN = 1.02
COLUMNS = (
    ("system", "system", "{}"),
    ("same text as stock", "identical_percent", "{:.1f}%"),
    ("tokens per iteration", "tok", "{:.2f}"),
    ("ms a sentence", "ms_mean", "{:.1f}"),
    ("over stock beam 1", "speed_beam1", "{:.2f}x"),
    ("over stock beam 5", "speed_beam5", "{:.2f}x"),
)


def without_drafter(job: Job, state: State) -> str:
    """What this engine does without a drafter, in a sentence."""
    compared = state.results("compare")
    each = [fastest(compared["rows"], job.uses[0], beam) for beam in job.beams]
    speeds = " and ".join(
        f"{best.speed:.1f} times stock fairseq's speed at beam {best.beam} "
        f"({best.row['ms_mean']:.1f} ms a sentence, {best.way})" for best in each
    )  # fmt: skip
    same = min(float(best.row["identical_percent"]) for best in each)
    return f"this engine alone: {speeds}, {same:.0f}% of {compared['sentences']} sentences the same"


def _uses(job: Job, state: State) -> List[str]:
    """What is fastest for each use, a sentence each."""
    return [
        f"{one.use[0].upper()}{one.use[1:]}: {one.way} is fastest, {one.row['ms_mean']:.1f} ms a "
        f"sentence, {one.speed:.1f} times stock fairseq's speed at that beam."
        for one in recommend(job, state)
    ]


def _pays(job: Job, state: State) -> str:
    """Whether the drafter pays, and where."""
    rows = state.results("measure")["rows"]
    gains = []
    for one in recommend(job, state):
        of_way = {way: rows[one.name][row_of(way, one.beam)] for way in job.ways}
        without = [row for way, row in of_way.items() if not WAYS[way].drafter]
        gains.append(min(float(row["ms_mean"]) for row in without) / of_way["gad"]["ms_mean"])
    paying = [gain for gain in gains if gain >= LEAST_GAIN]
    if paying:
        return (
            f"The drafter pays in {len(paying)} of {len(gains)} uses, and makes decoding up to "
            f"{max(paying):.2f} times as fast as without it."
        )
    found = f"with it decoding is {max(gains):.2f} times as fast as without it at best."
    if "iad" in job.ways:
        return f"The drafter does not pay: {found} The source is the better draft."
    return (
        f"The drafter does not pay yet: {found} Train longer: the same command with more --hours "
        "goes on."
    )


def verdict(job: Job, state: State) -> str:
    """What is fastest, and whether the drafter pays, in a few sentences."""
    return " ".join([*_uses(job, state), _pays(job, state)])


def training(state: State, fitting: Fitting) -> str:
    """What was distilled and trained, in sentences."""
    counts, trained = state.results("distil")["counts"], state.results("train")
    return (
        f"The drafter ({fitting.description}) was trained for {trained['updates']} updates on "
        f"{counts['kept']} sentence pairs that the verifier made ({losses(counts)}), in "
        f"{trained['seconds'] / 60:.0f} minutes; it ended because {trained['why']}."
    )


def _table(rows: Sequence[Dict[str, Any]]) -> str:
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title, _, _ in COLUMNS)
    lines = []
    for row in rows:
        cells = [form.format(row[name]) if row.get(name) is not None else "-"
                 for _, name, form in COLUMNS]  # fmt: skip
        name, *others = map(escape, cells)
        lines.append(f'<th scope="row">{name}</th><td>{"</td><td>".join(others)}</td>')
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    # scrolled by keys too
    return f'<div tabindex="0"><table><tr>{head}</tr>{body}</table></div>'


def _pictures(best: Sequence[Best], state: State) -> List[str]:
    """Time by system, gain by use, and what training has brought."""
    rows = state.results("measure")["rows"]
    size, first = next(iter(rows.items()))
    trained = state.results("train")
    parts, done = list(trained["history"]), list(trained["checked"])
    return [
        pictures.bars(
            f"Milliseconds a sentence, {'batches of ' * size.isdigit()}{size}",
            [(name, float(row["ms_mean"])) for name, row in first.items()], "{:.1f}",
        ),
        pictures.bars(
            "Speed of the fastest way over stock fairseq's at the same beam",
            [(one.use, one.speed) for one in best], "{:.1f}x",
        ),
        pictures.line(
            "Accepted tokens on validation sentences in training (1 without a drafter)",
            list(zip(done, parts)), "updates", "accepted tokens",
        ),
    ]  # fmt: skip


def write(job: Job, state: State, fitting: Fitting) -> None:
    measured, best = state.results("measure"), recommend(job, state)
    title = f"A drafter for {job.path}"
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{escape(_pays(job, state))}</p>"]
    parts.append(f"<ul>{''.join(f'<li>{escape(use)}</li>' for use in _uses(job, state))}</ul>")
    parts.append("<h2>Decode</h2>")
    for one in best:
        parts += [f"<h3>{escape(one.use)}</h3>", f"<pre>{escape(one.command(job))}</pre>"]
    parts.append("<h2>Figures</h2>")
    parts.append(
        f"<p>{measured['sentences']} validation sentences, {job.threads} thread"
        f"{'s' if job.threads > 1 else ''}{', on the CPU' if job.cpu else ''}.</p>"
    )
    for size, rows in measured["rows"].items():
        name = f"Batches of {size}" if size.isdigit() else size
        parts += [f"<h3>{escape(name)}</h3>", _table(list(rows.values()))]
    parts += _pictures(best, state)
    parts += ["<h2>How it was made</h2>", f"<p>{escape(training(state, fitting))}</p>"]
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{view}'
    head += f"<title>{escape(title)}</title><style>{STYLE}</style>"
    body = "\n".join(parts)
    text = (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body><main>\n{body}\n</main>'
        "</body></html>\n"
    )
    write_text(job.file("report.html"), text)
