"""Tables: columns over rows of named figures, and the pages of a run made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fairseq_specdec.decoding.stats import SECTIONS

from . import machine
from .engines import ENGINES
from .identity import NEAR
from .instruction_sets import NOT_HELD

NOTHING = "-"
NOISE = 0.03  # of a time: systems that are apart by less are equally fast
PLACES = 10  # of a draft, that the table shows; the JSON has all


class Column(NamedTuple):
    """A column: its title, and a row's cell."""

    title: str
    cell: Callable[[dict[str, Any]], str]


def figure(title: str, key: str, form: str) -> Column:
    """A column of one figure, formatted; a dash where a row has none."""
    return Column(title, lambda row: NOTHING if row.get(key) is None else form.format(row[key]))


def section_title(name: str) -> str:
    """A section of the time in words, as ``drafter encoder``."""
    return name.replace("_", " ")


def _section(name: str) -> Column:
    """A section's ms a sentence and its share of the time."""

    def cell(row: dict[str, Any]) -> str:
        times = row["ms_by_section"]
        if not times or not sum(times.values()):
            return NOTHING
        return f"{times[name]:.2f} ({100 * times[name] / sum(times.values()):.0f}%)"

    return Column(section_title(name), cell)


SYSTEM = figure("system", "system", "{}")
SPEED = [
    SYSTEM,
    figure("BLEU", "bleu", "{:.2f}"),
    figure("exact", "exact_percent", "{:.2f}%"),
    figure("identical", "identical_percent", "{:.1f}%"),
    Column("near-ties", lambda row: str(row.get("near_ties") or NOTHING)),
    figure("Tok.", "tok", "{:.2f}"),
    figure("without </s>", "tok_without_eos", "{:.2f}"),
    figure("Iter.", "iter", "{:.2f}"),
    figure("calls", "verifier_calls", "{:.2f}"),
    figure("s", "steps_a_pass", "{:.2f}"),
    figure("nodes", "nodes_a_pass", "{:.1f}"),
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
    figure("ms an iteration", "ms_per_iteration", "{:.2f}"),
    figure("accepted", "accepted_percent", "{:.1f}%"),
    figure("fallback", "fallback_percent", "{:.1f}%"),
    figure("rollback", "rollback_percent", "{:.1f}%"),
    figure("left early", "early_exit_percent", "{:.1f}%"),
    figure("layers", "layers", "{:.2f}"),
    figure("multiply-adds", "multiply_adds_m", "{:.0f} M"),
    figure("weights read", "weights_read_m", "{:.0f} M"),
]


def by_position(rows: Sequence[dict[str, Any]]) -> str:
    """A Markdown table of the shares of draft tokens accepted at each position."""
    shares = {row["system"]: row["acceptance_by_position"][:PLACES] for row in rows}
    longest = max(map(len, shares.values()))
    body = [
        [
            name,
            *(f"{100 * share:.1f}%" for share in row_shares),
            *[NOTHING] * (longest - len(row_shares)),
        ]
        for name, row_shares in shares.items()
    ]
    return table(["accepted at", *map(str, range(1, longest + 1))], body)


def cells(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Head and body; without columns that are empty for every row."""
    filled = [[column.title, *map(column.cell, rows)] for column in columns]
    return [list(line) for line in zip(*(one for one in filled if set(one[1:]) != {NOTHING}))]


def markdown(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> str:
    """A Markdown table that also reads well in a terminal."""
    head, *body = cells(columns, rows)
    return table(head, body)


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table whose columns line up, the first to the left."""
    # A bar would end the cell.
    rows = [[cell.replace("|", "\\|") for cell in line] for line in [head, *body]]
    widths = [max(len(line[i]) for line in rows) for i in range(len(head))]

    def text(line: Sequence[str]) -> str:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        return "| " + " | ".join(cells) + " |"

    rule = "|" + "|".join(["-" * (widths[0] + 2)] + ["-" * (w + 1) + ":" for w in widths[1:]]) + "|"
    return "\n".join([text(rows[0]), rule] + [text(line) for line in rows[1:]])


def title(run: dict[str, Any]) -> str:
    form = "{source_lang}-{target_lang}, {subset}, {sentences} sentences"
    return str(run.get("title") or "specdec-bench: " + form.format(**run["settings"]))


def conclusion(part: dict[str, Any]) -> str:
    """The fastest systems whose outputs equal those of stock, in a sentence; "" where outputs were
    not compared. Systems within ``NOISE`` of the least time share the place."""
    if all(row.get("identical_percent") is None for row in part["rows"]):
        return ""
    same = [row for row in part["rows"] if row.get("identical_percent") == 100]
    best = min(same, key=lambda row: float(row["ms_mean"]), default=None)
    where = f"batch {part['batch_size']}"
    if best is None or best["system"].startswith("fairseq beam"):
        return f"{where}: no system was faster than stock fairseq with identical text."
    tied = [row["system"] for row in same if row["ms_mean"] <= (1 + NOISE) * best["ms_mean"]]
    are = "is" if len(tied) == 1 else f"are, within {NOISE:.0%},"
    gain = best.get("speed_greedy") or 1
    return (
        f"{where}: {', '.join(tied)} {are} fastest with identical text: {best['ms_mean']:.2f} ms a "
        f"sentence, {best['speed_beam1']:.1f}x stock beam 1, {best['speed_beam5']:.1f}x beam 5"
        + (f", {gain:.2f}x this engine's greedy." if abs(gain - 1) > NOISE else ".")
    )


def document(run: dict[str, Any]) -> str:
    """The tables of a run, what their columns mean, and what they were measured on."""
    parts = [run["notice"]] if "notice" in run else []
    for part in run["runs"]:
        measured = f"batch {part['batch_size']}, median of {run['settings']['repeats']}"
        parts.append(f"{title(run)}, {measured}")
        parts += [markdown(SPEED, part["rows"]), markdown(TIME, part["rows"])]
        drafting = [row for row in part["rows"] if row.get("acceptance_by_position")]
        parts += [by_position(drafting)] if drafting else []
        parts += filter(None, [conclusion(part)])
    parts += [f"WARNING: {text}" for text in run["warnings"]]
    parts.append("\n".join(f"- {line}" for line in legend(run)))
    facts = run["provenance"]
    parts.append(f"{machine.line(facts)}\n\n    {facts['command']}")
    return "\n\n".join(parts) + "\n"


TOKENS = (
    "Tok.: tokens an iteration, </s> included; without </s>: the same as the authors of GAD and "
    "SpecDec count it; Iter.: iterations a sentence; calls: passes of the verifier's decoder a "
    "sentence, a batch's shared by its sentences; s and nodes: steps of a beam search that follow "
    "one pass for a sentence, and prefixes that the pass scores. Accepted at 1, 2, ...: the share "
    "of draft tokens at that place that were accepted, of those before which all were."
)
IDENTICAL = (
    "identical: sentences whose tokens, of the --nbest first hypotheses, equal those of stock "
    "fairseq at the same beam (of its own wider beams: at beam 1) over the same checkpoint and "
    "constraints; near-ties: of those that differ, where two hypotheses came within "
    f"{NEAR:g} of one another, in log-probability; "
)
TIMES = (
    "ms: total time over sentences; CPU: the same in processor time, all threads and their "
    "spinning; median, p95, p99: of the time until a sentence's batch is done; vs: ratio of total "
    "times, beam 5 and beam 1 of stock, greedy of this engine without drafts at the row's beam and "
    "number format, which is what drafting gains; tokens/s: output tokens, </s> included.",
    "encoder (the verifier's), drafter encoder (a drafter's own), drafter, verifier (its decoder), "
    "rest: ms a sentence; accepted: share of the drafted tokens; fallback, rollback: shares of all "
    "steps, as in Kim et al. 2023, Table 4; left early: share of the tokens that calm emits before "
    "the last layer; layers: of the decoder, a token; multiply-adds and weights read, a sentence: "
    "of the decoders of verifier and small model, without attention (Figure 8).",
)


def legend(run: dict[str, Any]) -> list[str]:
    """What the columns mean, a line each, and what to know of the machine."""
    lines = [TOKENS if "notice" in run else IDENTICAL + TOKENS, *TIMES, *run.get("notes", [])]
    if run["quality"]:
        on = f"on {run['quality']['on']}; sacrebleu {run['quality']['signature']}"
        lines.append(f"BLEU: {on}; exact: share of outputs that are the reference.")
    lines += _on_the_machine(run)
    if run["memory"]:
        lines.append(f"MB: {run['memory']}.")
    return lines


def without_engine(facts: dict[str, Any]) -> list[str]:
    """Of a run's record: what is missing to decode faster."""
    missing = facts.get("machine", {}).get("missing_engine")
    return [f"WARNING: {missing}."] if missing else []


def _on_the_machine(run: dict[str, Any]) -> list[str]:
    """What the engine, threads and load mean for a run's times, a line each."""
    lines = without_engine(run["provenance"])
    count = run["provenance"].get("threads") or 1
    loads = [part["load_average"][0] for part in run["runs"] if part.get("load_average")]
    if loads and max(loads) > count + 1:
        lines.append(
            f"The machine was busy (load average {max(loads):.0f}): times depend on what else ran "
            "when, and on how the system shares its processors among processes. With one thread, "
            "CPU depends less on that. Measure again on a quiet machine."
        )
    lines += [line for part in run["runs"] for line in part.get("thread_warnings", [])]
    names = [row["system"] for part in run["runs"] for row in part["rows"]]
    isa = run.get("settings", {}).get("isa")
    free = [ENGINES[name].title for name in NOT_HELD]
    if isa and any(name.startswith(tuple(free)) for name in names):
        lines.append(f"{' and '.join(free)} cannot be held to {isa} and used all of the processor.")
    title = ENGINES["ctranslate2"].title
    if count > 1 and any(name.startswith(title) for name in names):
        lines.append(
            f"{title} ran with {count} threads inside a sentence, which can take it "
            "several times as long as one where waking a thread is slow, as on virtual machines: "
            "measure with --threads 1 too."
        )
    return lines
