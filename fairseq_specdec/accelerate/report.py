"""``report.html``: what is fastest for which use, the commands for it, figures, how it was made."""

import os
from collections.abc import Sequence
from typing import Any

from ..bench.tables import SPEED, cells
from ..data.merge import losses
from ..hub.choice import decide
from ..hub.converted import VERIFIER, describe
from ..io.atomic import write_text
from ..reports.page import page
from . import commands, measuring
from .commands import GAD, Job
from .measuring import LEAST_GAIN, recommend

BODY = """
<p>{{ lead }}</p>
<h2>Decode</h2><p>Run in {{ place }}.</p>
{% for use, command in commands %}
<h3>{{ use[0] | upper }}{{ use[1:] }}</h3><pre>{{ command }}</pre>
{% endfor %}
<h2>Figures</h2><p>{{ sentences }} validation sentences, {{ job.args.threads }} thread
{{- "s" if job.args.threads > 1 }}{{ ", on the CPU" if job.cpu }}.</p>
{% for name, rows in tables.items() %}<h3>{{ name }}</h3>{{ table(rows[0], rows[1:]) }}
{% endfor %}
{% if made is defined %}
<h2>How it was made</h2><p>{{ made }}</p>
{{ table(["updates of training", "accepted tokens on validation sentences"], history) }}
{% endif %}
"""


def without_drafter(job: Job) -> str:
    """What this engine does without a drafter, in a sentence."""
    sentences, each = job.state.results("compare")["sentences"], measuring.without_drafter(job)
    speeds = " and ".join(f"beam {best.beam}: {best.figures.partition(': ')[2]}" for best in each)
    same = min(float(best.row["identical_percent"]) for best in each)
    return f"this engine alone: {speeds}; {same:.0f}% of {sentences} sentences the same"


def _range(speeds: Sequence[float], form: str) -> str:
    return " to ".join(dict.fromkeys(form.format(each) for each in (min(speeds), max(speeds))))


def verdict(job: Job) -> str:
    """The gain of the engine, that of the drafter, and what to use."""
    best, ways = recommend(job), dict[str, list[str]]()
    engine = _range([one.stock / one.ms["greedy"] for one in best], "{:.1f}")
    drafter = _range([one.ms["greedy"] / one.ms[GAD] for one in best], "{:.2f}")
    for one in best:
        ways.setdefault(one.way, []).append(one.use)
    uses = ", and ".join(f"{way} for {'; '.join(uses)}" for way, uses in ways.items())
    text = (
        f"Without a drafter (greedy) this engine decodes {engine} times as fast as stock fairseq; "
        f"with the drafter (gad) {drafter} times as fast as greedy; use "
        f"{uses if len(ways) > 1 else best[0].way}."
    )
    if GAD in ways:
        return text
    if "iad" in job.ways:
        return f"{text} The drafter does not pay: the source is the better draft."
    return (
        f"{text} The drafter does not pay yet (it must gain {LEAST_GAIN} times). To train longer, "
        "rerun the command with more --hours."
    )


def by_default(job: Job) -> str:
    """What decodes each pair where no strategy is named, and why."""
    path, text = os.path.join(str(job.converted), VERIFIER), ""
    for pair in job.pairs if job.placed else ():
        described = describe([path], *pair.split("-", 1))
        choice = decide(None, job.placed, described, {}, not job.cpu)
        text += f" Without --strategy {pair} is decoded by {choice.strategy}: {choice.why}."
    return text


def write(job: Job, more: Sequence[tuple[str, str]] = (), refused: str = "") -> None:
    """Write the report.

    Args:
        more: (what for, command) besides those of each use.
        refused: why no drafter was made or measured; the report is then of what decodes without.
    """
    if refused:
        best, measured = measuring.without_drafter(job), job.state.results("compare")
        tables = {measuring.name_of(best[0].pair, 1): measured["rows"]}
        values: dict[str, Any] = {"lead": f"No drafter: {refused}. {without_drafter(job)}."}
    else:
        best, measured = recommend(job), job.state.results("measure")
        tables, trained = measured["rows"], job.state.results("train")
        counts = job.state.results("distil")["counts"]
        values = {
            "lead": verdict(job) + by_default(job),
            "made": f"The drafter ({job.described}) was trained for {trained['updates']} updates "
            f"on {counts['kept']} sentence pairs that the verifier made ({losses(counts)}), in "
            f"{trained['seconds'] / 60:.0f} minutes; it ended because {trained['why']}.",
            "history": list(zip(trained["checked"], map("{:.2f}".format, trained["history"]))),
        }
    values.update(
        job=job, place=os.getcwd(), sentences=measured["sentences"],
        commands=[*((each.figures, commands.decode(job, *each[:4])) for each in best), *more],
        tables={name: cells(SPEED, list(rows.values())) for name, rows in tables.items()},
    )  # fmt: skip
    folder, name = os.path.split(os.path.abspath(job.path))
    title = f"Decoding {os.path.basename(folder)}/{name} faster: {', '.join(job.pairs)}"
    write_text(job.file("report.html"), page(BODY, title, values))
