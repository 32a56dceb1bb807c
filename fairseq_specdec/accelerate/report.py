"""``report.html``: what is fastest for which use, the commands for it, figures, how it was made."""

import os
from collections.abc import Sequence
from typing import Any

from ..data.merge import losses
from ..io.atomic import write_text
from ..reports.page import cells, page
from . import measuring
from .commands import WAYS, Job, row_of
from .measuring import LEAST_GAIN, Best, recommend
from .state import State
from .verifier import Fitting

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
<h2>Figures</h2><p>{{ sentences }} validation sentences, {{ job.threads }} thread
{{- "s" if job.threads > 1 }}{{ ", on the CPU" if job.cpu }}.</p>
{% for name, rows in tables %}<h3>{{ name }}</h3>{{ table(head, rows) }}
{% endfor %}
{% if made %}
{{ bars("Milliseconds per sentence, " + first, times, "{:.1f}") }}
{{ bars("Speed of the fastest way over stock fairseq's at the same beam", speeds, "{:.1f}x") }}
{{ bars("Accepted tokens on validation sentences, by updates of training (1 without a drafter)",
        history, "{:.2f}") }}
<h2>How it was made</h2><p>{{ made }}</p>
{% endif %}
"""


def without_drafter(job: Job, state: State) -> str:
    """What this engine does without a drafter, in a sentence."""
    compared, each = state.results("compare"), measuring.without_drafter(job, state)
    speeds = " and ".join(
        f"{best.speed:.1f} times stock fairseq's speed at beam {best.beam} "
        f"({best.row['ms_mean']:.1f} ms per sentence, {best.way})" for best in each
    )  # fmt: skip
    same = min(float(best.row["identical_percent"]) for best in each)
    return f"this engine alone: {speeds}, {same:.0f}% of {compared['sentences']} sentences the same"


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


def _write(
    job: Job, lead: str, best: Sequence[Best], measured: dict[str, Any], **more: Any
) -> None:
    """``measured``: of a step, its ``rows`` by use. ``more``: what a drafter was made by, and what
    it is used with besides."""
    folder, name = os.path.split(os.path.abspath(job.path))
    model = os.path.join(os.path.basename(folder), name)
    commands = [(one.use, one.command(job)) for one in best] + list(more.pop("further", ()))
    values = {
        "job": job, "lead": lead, "best": best, "place": os.getcwd(), "head": list(COLUMNS),
        "commands": [(use, _copied(command)) for use, command in commands],
        "sentences": measured["sentences"], "made": "", **more,
        "tables": [
            (f"Batches of {use}" if use.isdigit() else use,
             cells(list(rows.values()), list(COLUMNS.values())))
            for use, rows in measured["rows"].items()
        ],
    }  # fmt: skip
    title = f"Decoding {model} faster: {', '.join(job.all_pairs)}"
    write_text(job.file("report.html"), page(BODY, title, values))


def _copied(command: str) -> str:
    """A command, or a call of Python with its import."""
    if not command.startswith("SpeculativeTranslator"):
        return command
    return f"from fairseq_specdec.hub import SpeculativeTranslator\n\ntranslator = {command}"


def write_refusal(job: Job, state: State, reason: str) -> None:
    """The report where no drafter was made or measured: what decodes without one."""
    compared, best = state.results("compare"), measuring.without_drafter(job, state)
    lead = f"No drafter: {reason}. {without_drafter(job, state)}."
    _write(job, lead, best, {**compared, "rows": {best[0].name: compared["rows"]}})


def write(job: Job, state: State, fitting: Fitting, more: Sequence[tuple[str, str]] = ()) -> None:
    """The whole report. ``more``: (what for, command) besides those of each use."""
    best, (measured, trained) = recommend(job, state), map(state.results, ("measure", "train"))
    first, rows = next(iter(measured["rows"].items()))
    _write(
        job, verdict(job, state), best, measured, further=more, made=training(state, fitting),
        first=f"batches of {first}" if first.isdigit() else first,
        times=[(name, float(row["ms_mean"])) for name, row in rows.items()],
        speeds=[(one.use, one.speed) for one in best],
        history=list(zip(trained["checked"], trained["history"])),
    )  # fmt: skip
