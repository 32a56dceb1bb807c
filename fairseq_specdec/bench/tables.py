"""Tables: columns over rows of named figures, and the document of a run made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tabulate import tabulate

from fairseq_specdec.decoding.stats import SECTIONS

from .outputs import NEAR, Figures

NOTHING = "-"


# A column: its title, and a row's cell.
Column = tuple[str, Callable[[Figures], str]]


def figure(title: str, key: str, form: str) -> Column:
    """A column of one figure, formatted; a dash where a row has none."""
    return title, lambda row: NOTHING if row.get(key) is None else form.format(row[key])


def section_title(name: str) -> str:
    """Name of a section of the time, as ``drafter encoder``."""
    return name.replace("_", " ")


def _section(name: str) -> Column:
    """A section's ms per sentence and its share of the time."""

    def cell(row: Figures) -> str:
        times = row["ms_by_section"]
        if not times or not sum(times.values()):
            return NOTHING
        return f"{times[name]:.2f} ({100 * times[name] / sum(times.values()):.0f}%)"

    return section_title(name), cell


SYSTEM = figure("system", "system", "{}")
SPEED = [
    SYSTEM,
    figure("BLEU", "bleu", "{:.2f}"),
    figure("exact", "exact_percent", "{:.2f}%"),
    figure("identical", "identical_percent", "{:.1f}%"),
    ("near-ties", lambda row: str(row.get("near_ties") or NOTHING)),
    figure("Tok.", "tok", "{:.2f}"),
    figure("without </s>", "tok_without_eos", "{:.2f}"),
    figure("Iter.", "iter", "{:.2f}"),
    figure("calls", "verifier_calls", "{:.2f}"),
    figure("ms", "ms_mean", "{:.2f}"),
    figure("CPU", "cpu_ms_mean", "{:.2f}"),
    figure("median", "ms_median", "{:.2f}"),
    figure("p95", "ms_p95", "{:.2f}"),
    figure("p99", "ms_p99", "{:.2f}"),
    figure("vs beam 5", "speed_beam5", "{:.2f}x"),
    figure("vs beam 1", "speed_beam1", "{:.2f}x"),
    figure("vs greedy", "speed_greedy", "{:.2f}x"),
    figure("tokens/s", "tokens_per_second", "{:.0f}"),
    figure("MB", "memory_mb", "{:.0f}"),
]
TIME = [
    SYSTEM,
    *map(_section, SECTIONS),
    figure("ms per iteration", "ms_per_iteration", "{:.2f}"),
    figure("accepted", "accepted_percent", "{:.1f}%"),
    figure("fallback", "fallback_percent", "{:.1f}%"),
    figure("rollback", "rollback_percent", "{:.1f}%"),
]


def accepted_at(place: int) -> Column:
    """The share of draft tokens accepted at a place of the draft, from 1 (the JSON has all)."""

    def cell(row: Figures) -> str:
        shares = (row.get("acceptance_by_position") or [])[place - 1 : place]
        return f"{100 * shares[0]:.1f}%" if shares else NOTHING

    return str(place), cell


ACCEPTED = [figure("accepted at", "system", "{}"), *map(accepted_at, range(1, 11))]


def cells(columns: Sequence[Column], rows: Sequence[Figures]) -> list[list[str]]:
    """Head and body; without columns that are empty for every row."""
    filled = [[title, *map(cell, rows)] for title, cell in columns]
    return [list(line) for line in zip(*(one for one in filled if set(one[1:]) != {NOTHING}))]


def markdown(columns: Sequence[Column], rows: Sequence[Figures]) -> str:
    head, *body = cells(columns, rows)
    return table(head, body)


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table whose columns line up, the first to the left."""
    rows = [[cell.replace("|", "\\|") for cell in line] for line in [head, *body]]
    align = ["left", *["right"] * (len(head) - 1)]
    text: str = tabulate(rows[1:], rows[0], "pipe", disable_numparse=True, colalign=align)
    return text


def title(run: Figures) -> str:
    form = "{source_lang}-{target_lang}, {subset}, {sentences} sentences"
    return str(run.get("title") or "specdec-bench: " + form.format(**run["settings"]))


def line(facts: Figures) -> str:
    """The most telling facts of :func:`record` in one line, to stand under a table."""
    telling = {"device": facts["machine"]["device"], "threads": facts["threads"]}
    commit = re.sub(r"^([0-9a-f]{12})[0-9a-f]*", r"\1", facts["commit"])  # and whether it is dirty
    telling.update(facts["versions"], commit=commit)
    return "; ".join(f"{key} {value}" for key, value in telling.items())


def document(run: Figures) -> str:
    """The tables of a run, what their columns mean, and what they were measured on."""
    parts = [run["notice"]] if "notice" in run else []
    for part in run["runs"]:
        measured = f"batch {part['batch_size']}, median of {run['settings']['repeats']}"
        parts.append(f"{title(run)}, {measured}")
        parts += [markdown(SPEED, part["rows"]), markdown(TIME, part["rows"])]
        drafting = [row for row in part["rows"] if row.get("acceptance_by_position")]
        parts += [markdown(ACCEPTED, drafting)] if drafting else []
    parts += [f"WARNING: {text}" for text in run["warnings"]]
    parts.append("\n".join(f"- {line}" for line in legend(run)))
    facts = run["provenance"]
    parts.append(f"{line(facts)}\n\n    {facts['command']}")
    return "\n\n".join(parts) + "\n"


LEGEND = (
    "Tok.: tokens per iteration, </s> included; Iter., calls: iterations and passes of the "
    "verifier's decoder per sentence; ms: total time over sentences, CPU the same in processor "
    "time of all threads; median, p95, p99: of the time until a sentence's batch is done; vs: "
    "ratio of total times, beam 5 and beam 1 of stock, greedy of this engine without drafts. "
    "docs/benchmarks.md has more."
)
IDENTICAL = (
    "identical: sentences whose tokens, of the --nbest first hypotheses, equal those of stock "
    "fairseq at the same beam (of its own wider beams: at beam 1) over the same checkpoint and "
    f"constraints; near-ties: those that differ where two hypotheses came within {NEAR:g}."
)


def legend(run: Figures) -> list[str]:
    """What the columns mean, a line each, and what to know of the machine."""
    lines = [*[IDENTICAL] * ("notice" not in run), LEGEND, *run.get("notes", [])]
    if run["quality"]:
        on = f"on {run['quality']['on']}; sacrebleu {run['quality']['signature']}"
        lines.append(f"BLEU: {on}; exact: share of outputs that are the reference.")
    facts = run["provenance"]
    missing = facts.get("machine", {}).get("missing_engine")
    lines += [f"WARNING: {missing}."] if missing else []
    loads = [part["load_average"][0] for part in run["runs"] if part.get("load_average")]
    if loads and max(loads) > (facts.get("threads") or 1) + 1:
        busy = f"The machine was busy (load average {max(loads):.0f}): times depend on what else"
        lines.append(f"{busy} ran when. Measure again on a quiet machine.")
    return lines
