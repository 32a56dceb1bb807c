"""``report.html``: what is fastest for which use, the commands for it, figures, how it was made."""

import os
from collections.abc import Sequence
from typing import Any

from ..data.merge import losses
from ..io.atomic import write_text
from ..reports.page import cells, page
from . import measuring
from .commands import Job, row_of
from .measuring import LEAST_GAIN, recommend

COLUMNS = {
    "system": ("system", "{}"),
    "same text as stock": ("identical_percent", "{:.1f}%"),
    "tokens per iteration": ("tok", "{:.2f}"),
    "ms per sentence": ("ms_mean", "{:.1f}"),
    "over stock beam 1": ("speed_beam1", "{:.2f}x"),
    "over stock beam 5": ("speed_beam5", "{:.2f}x"),
}
BODY = """
<p>{{ lead }}</p>
<ul>{% for each in best %}<li>{{ each.use[0] | upper }}{{ each.use[1:] }}: {{ each.way }},
{{ "%.1f" % each.row.ms_mean }} ms per sentence,
{{ "%.1f" % each.speed }} times stock fairseq's speed at that beam.</li>
{% endfor %}</ul>
<h2>Decode</h2><p>Run in {{ place }}.</p>
{% for use, command in commands %}
<h3>{{ use[0] | upper }}{{ use[1:] }}</h3><pre>{{ command }}</pre>
{% endfor %}
<h2>Figures</h2><p>{{ sentences }} validation sentences, {{ job.args.threads }} thread
{{- "s" if job.args.threads > 1 }}{{ ", on the CPU" if job.cpu }}.</p>
{% for name, rows in tables %}<h3>{{ name }}</h3>{{ table(head, rows) }}
{% endfor %}
{% if made %}
{{ bars("Speed of the fastest way over stock fairseq's at the same beam", speeds, "{:.1f}x") }}
{{ bars("Accepted tokens on validation sentences, by updates of training (1 without a drafter)",
        history, "{:.2f}") }}
<h2>How it was made</h2><p>{{ made }}</p>
{% endif %}
"""


def without_drafter(job: Job) -> str:
    """What this engine does without a drafter, in a sentence."""
    compared, each = job.state.results("compare"), measuring.without_drafter(job)
    speeds = " and ".join(
        f"{best.speed:.1f} times stock fairseq's speed at beam {best.beam} "
        f"({best.row['ms_mean']:.1f} ms per sentence, {best.way})" for best in each
    )  # fmt: skip
    same = min(float(best.row["identical_percent"]) for best in each)
    return f"this engine alone: {speeds}, {same:.0f}% of {compared['sentences']} sentences the same"


def _range(speeds: Sequence[float], form: str) -> str:
    return " to ".join(dict.fromkeys(form.format(each) for each in (min(speeds), max(speeds))))


def verdict(job: Job) -> str:
    """The gain of the engine, that of the drafter, and what to use."""
    rows, best = job.state.results("measure")["rows"], recommend(job)
    engine = [one.stock["ms_mean"] / one.greedy["ms_mean"] for one in best]
    drafted = [rows[one.name][row_of("gad", one.beam)]["ms_mean"] for one in best]
    gains = [one.greedy["ms_mean"] / ms for one, ms in zip(best, drafted)]
    said = (
        f"Without a drafter (greedy) this engine decodes {_range(engine, '{:.1f}')} times as fast "
        f"as stock fairseq; with the drafter (gad) {_range(gains, '{:.2f}')} times as fast as "
        "greedy; "
    )
    ways: dict[str, list[str]] = {}
    for one in best:
        ways.setdefault(one.way, []).append(one.use)
    uses = [f"{way} for {'; '.join(uses)}" for way, uses in ways.items()]
    said += f"use {best[0].way if len(ways) == 1 else ', and '.join(uses)}."
    if "gad" not in ways and "iad" in job.ways:
        said += " The drafter does not pay: the source is the better draft."
    elif "gad" not in ways:
        said += f" The drafter does not pay yet (it must gain {LEAST_GAIN} times). Train longer: "
        said += "the same command with more --hours goes on."
    return said


def write(job: Job, more: Sequence[tuple[str, str]] = (), refused: str = "") -> None:
    """Write the report.

    Args:
        more: (what for, command) besides those of each use.
        refused: why no drafter was made or measured; the report is then of what decodes without.
    """
    values: dict[str, Any] = {"made": ""}
    if refused:
        best, measured = measuring.without_drafter(job), job.state.results("compare")
        measured["rows"] = {best[0].name: measured["rows"]}
        values["lead"] = f"No drafter: {refused}. {without_drafter(job)}."
    else:
        best, measured = recommend(job), job.state.results("measure")
        counts, trained = job.state.results("distil")["counts"], job.state.results("train")
        values = {
            "lead": verdict(job),
            "made": f"The drafter ({job.fitting.description}) was trained for {trained['updates']} "
            f"updates on {counts['kept']} sentence pairs that the verifier made "
            f"({losses(counts)}), in {trained['seconds'] / 60:.0f} minutes; it ended because "
            f"{trained['why']}.",
            "speeds": [(one.use, one.speed) for one in best],
            "history": list(zip(trained["checked"], trained["history"])),
        }
    values.update(
        job=job, best=best, place=os.getcwd(), head=list(COLUMNS), sentences=measured["sentences"],
        commands=[*((one.use, one.command(job)) for one in best), *more],
        tables=[(f"Batches of {use}" if use.isdigit() else use,
                 cells(list(rows.values()), list(COLUMNS.values())))
                for use, rows in measured["rows"].items()],
    )  # fmt: skip
    folder, name = os.path.split(os.path.abspath(job.path))
    model = os.path.join(os.path.basename(folder), name)
    title = f"Decoding {model} faster: {', '.join(job.pairs)}"
    write_text(job.file("report.html"), page(BODY, title, values))
