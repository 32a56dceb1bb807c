"""``report.html``: what is fastest for which use, the commands for it, figures, how it was made."""

import os
from html import escape
from typing import Any, Dict, List, Sequence, Tuple

from ..data.merge import losses
from ..io.atomic import write_text
from . import measuring, pictures
from .commands import WAYS, Job, row_of
from .measuring import LEAST_GAIN, Best, recommend
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
COLUMNS = (
    ("system", "system", "{}"),
    ("same text as stock", "identical_percent", "{:.1f}%"),
    ("tokens per iteration", "tok", "{:.2f}"),
    ("ms per sentence", "ms_mean", "{:.1f}"),
    ("over stock beam 1", "speed_beam1", "{:.2f}x"),
    ("over stock beam 5", "speed_beam5", "{:.2f}x"),
)


def without_drafter(job: Job, state: State) -> str:
    """What this engine does without a drafter, in a sentence."""
    compared, each = state.results("compare"), measuring.without_drafter(job, state)
    speeds = " and ".join(
        f"{best.speed:.1f} times stock fairseq's speed at beam {best.beam} "
        f"({best.row['ms_mean']:.1f} ms per sentence, {best.way})" for best in each
    )  # fmt: skip
    same = min(float(best.row["identical_percent"]) for best in each)
    return f"this engine alone: {speeds}, {same:.0f}% of {compared['sentences']} sentences the same"


def _uses(best: Sequence[Best]) -> List[str]:
    """What to use for each use, a sentence each."""
    return [
        f"{one.use[0].upper()}{one.use[1:]}: {one.way}, {one.row['ms_mean']:.1f} ms per sentence, "
        f"{one.speed:.1f} times stock fairseq's speed at that beam."
        for one in best
    ]


def _range(speeds: Sequence[float], form: str) -> str:
    return " to ".join(dict.fromkeys(form.format(each) for each in (min(speeds), max(speeds))))


def verdict(job: Job, state: State) -> str:
    """The gain of the engine, that of the drafter, and what to use."""
    rows, best = state.results("measure")["rows"], recommend(job, state)
    engine = [one.stock["ms_mean"] / one.greedy["ms_mean"] for one in best]
    drafted = [rows[one.name][row_of("gad", one.beam)]["ms_mean"] for one in best]
    gains = [one.greedy["ms_mean"] / ms for one, ms in zip(best, drafted)]
    said = (
        f"Without a drafter (greedy) this engine decodes {_range(engine, '{:.1f}')} times as fast "
        f"as stock fairseq; with the drafter (gad) {_range(gains, '{:.2f}')} times as fast as "
        "greedy; "
    )
    ways = {way: [one.use for one in best if one.way == way] for way in WAYS}
    others = [f"{way} for {'; '.join(uses)}" for way, uses in ways.items() if uses]
    said += f"use {others[0].partition(' for ')[0] if len(others) == 1 else ', and '.join(others)}."
    if ways["gad"]:
        return said
    if "iad" in job.ways:
        return f"{said} The drafter does not pay: the source is the better draft."
    return (
        f"{said} The drafter does not pay yet (it must gain {LEAST_GAIN} times). Train longer: the "
        "same command with more --hours goes on."
    )


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
            f"Milliseconds per sentence, {'batches of ' * size.isdigit()}{size}",
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


def _page(job: Job, lead: str, best: Sequence[Best], parts: Sequence[str], more: Any = ()) -> None:
    """Write the report. ``parts``: what follows the commands. ``more``: (what for, command)."""
    folder, name = os.path.split(os.path.abspath(job.path))
    model = os.path.join(os.path.basename(folder), name)
    title = f"Decoding {model} faster: {', '.join(job.all_pairs)}"
    decoding = [(one.use, one.command(job)) for one in best]
    commands = [
        f"<h3>{escape(use[0].upper() + use[1:])}</h3><pre>{escape(_copied(command))}</pre>"
        for use, command in [*decoding, *more]
    ]
    body = "\n".join([
        f"<h1>{escape(title)}</h1>", f"<p>{escape(lead)}</p>",
        f"<ul>{''.join(f'<li>{escape(use)}</li>' for use in _uses(best))}</ul>",
        "<h2>Decode</h2>", f"<p>Run in {escape(os.getcwd())}.</p>", *commands, *parts,
    ])  # fmt: skip
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{view}<title>{escape(title)}</title><style>{STYLE}</style>'
    text = (
        f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body><main>\n{body}\n</main>'
        "</body></html>\n"
    )
    write_text(job.file("report.html"), text)


def _copied(command: str) -> str:
    """A command, or a call of Python with its import."""
    if not command.startswith("SpeculativeTranslator"):
        return command
    return f"from fairseq_specdec.hub import SpeculativeTranslator\n\ntranslator = {command}"


def _figures(job: Job, tables: Dict[str, Any], sentences: int) -> List[str]:
    parts = [
        f"<h2>Figures</h2><p>{sentences} validation sentences, {job.threads} thread"
        f"{'s' if job.threads > 1 else ''}{', on the CPU' if job.cpu else ''}.</p>"
    ]
    for size, rows in tables.items():
        name = f"Batches of {size}" if size.isdigit() else size
        parts += [f"<h3>{escape(name)}</h3>", _table(list(rows.values()))]
    return parts


def write_refusal(job: Job, state: State, reason: str) -> None:
    """The report where no drafter was made or measured: what decodes without one."""
    compared, best = state.results("compare"), measuring.without_drafter(job, state)
    lead = f"No drafter: {reason}. {without_drafter(job, state)}."
    _page(job, lead, best, _figures(job, {best[0].name: compared["rows"]}, compared["sentences"]))


def write(job: Job, state: State, fitting: Fitting, more: Sequence[Tuple[str, str]] = ()) -> None:
    """The whole report. ``more``: (what for, command) besides those of each use."""
    measured, best = state.results("measure"), recommend(job, state)
    parts = [*_figures(job, measured["rows"], measured["sentences"]), *_pictures(best, state)]
    parts += ["<h2>How it was made</h2>", f"<p>{escape(training(state, fitting))}</p>"]
    _page(job, verdict(job, state), best, parts, more)
