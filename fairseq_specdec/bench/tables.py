"""The tables of ``specdec-bench``, as rows of text."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Sequence

from fairseq_specdec.decoding.stats import SECTIONS

from . import threads
from .report import table

NOTHING = "-"


class Column(NamedTuple):
    """A column: its title, and a row's cell."""

    title: str
    cell: Callable[[Dict[str, Any]], str]


def _figure(key: str, form: str) -> Callable[[Dict[str, Any]], str]:
    def cell(row: Dict[str, Any]) -> str:
        value = row.get(key)
        return NOTHING if value is None else form.format(value)

    return cell


def section_title(name: str) -> str:
    """A section of the time in words, as ``drafter encoder``."""
    return name.replace("_", " ")


def _section(name: str) -> Callable[[Dict[str, Any]], str]:
    def cell(row: Dict[str, Any]) -> str:
        times = row["ms_by_section"]
        if not times or not sum(times.values()):
            return NOTHING
        return f"{times[name]:.2f} ({100 * times[name] / sum(times.values()):.0f}%)"

    return cell


SYSTEM = Column("system", _figure("system", "{}"))
SPEED = [
    SYSTEM,
    Column("BLEU", _figure("bleu", "{:.2f}")),
    Column("identical", _figure("identical_percent", "{:.1f}%")),
    Column("Tok.", _figure("tok", "{:.2f}")),
    Column("without </s>", _figure("tok_without_eos", "{:.2f}")),
    Column("Iter.", _figure("iter", "{:.2f}")),
    Column("calls", _figure("verifier_calls", "{:.2f}")),
    Column("ms", _figure("ms_mean", "{:.2f}")),
    Column("CPU", _figure("cpu_ms_mean", "{:.2f}")),
    Column("median", _figure("ms_median", "{:.2f}")),
    Column("p95", _figure("ms_p95", "{:.2f}")),
    Column("p99", _figure("ms_p99", "{:.2f}")),
    Column("vs beam 5", _figure("speed_beam5", "{:.2f}x")),
    Column("vs beam 1", _figure("speed_beam1", "{:.2f}x")),
    Column("tokens/s", _figure("tokens_per_second", "{:.0f}")),
    Column("J", _figure("energy_j", "{:.2f}")),
    Column("MB", _figure("memory_mb", "{:.0f}")),
]
TIME = [
    SYSTEM,
    *(Column(section_title(name), _section(name)) for name in SECTIONS),
    Column("accepted", _figure("accepted_percent", "{:.1f}%")),
    Column("fallback", _figure("fallback_percent", "{:.1f}%")),
    Column("rollback", _figure("rollback_percent", "{:.1f}%")),
]

# Columns that say nothing of a replay, whose outputs mean nothing.
NOT_REPLAYED = ("BLEU", "identical")


def speed(run: Dict[str, Any]) -> List[Column]:
    """The columns of the first table.

    Args:
        run: the command's results.
    """
    return [column for column in SPEED if "replay" not in run or column.title not in NOT_REPLAYED]


def title(run: Dict[str, Any]) -> str:
    """What was measured, in a line (argument as for ``speed``)."""
    settings = run["settings"]
    if "replay" in run:
        drafter = run["replay"]["drafter"]
        return (
            f"specdec-bench REPLAY: {run['replay']['verifier']}, "
            + (f"drafter {drafter} with k = {settings['block_size']}, " if drafter else "")
            + f"vocabulary {settings['vocabulary']}; {settings['sentences']} sentences of "
            f"{settings['length']} tokens, batch {settings['batch_size']}, median of "
            f"{settings['repeats']}"
        )
    return (
        f"specdec-bench: {settings['source_lang']}-{settings['target_lang']}, "
        f"{settings['subset']}, {settings['sentences']} sentences"
    )


def cells(columns: Sequence[Column], rows: Sequence[Dict[str, Any]]) -> List[List[str]]:
    """Head and body."""
    head = [column.title for column in columns]
    return [head, *([column.cell(row) for column in columns] for row in rows)]


def markdown(columns: Sequence[Column], rows: Sequence[Dict[str, Any]]) -> str:
    """A Markdown table that also reads well in a terminal."""
    head, *body = cells(columns, rows)
    return table(head, body)


def legend(run: Dict[str, Any]) -> List[str]:
    """What the columns mean, a line each.

    Args:
        run: the command's results.
    """
    lines = [
        "identical: sentences whose tokens equal those of stock fairseq beam 1 over the same "
        "checkpoint and constraints; Tok.: tokens an iteration, </s> included; without </s>: the "
        "same as the authors of GAD and SpecDec count it; Iter.: iterations a sentence; "
        "calls: passes of the verifier's decoder a sentence, a batch's shared by its sentences.",
        "ms: total time over sentences; CPU: the same in processor time, all threads and their "
        "spinning; median, p95, p99: of the time until a sentence's batch is "
        "done; vs: ratio of total times; tokens/s: output tokens, </s> included.",
        "encoder (the verifier's), drafter encoder (a drafter's own), drafter, verifier (its "
        "decoder), rest: ms a sentence; accepted: share of the drafted tokens; fallback, rollback: "
        "shares of all steps, as in Kim et al. 2023, Table 4.",
    ]
    if "replay" in run:
        lines[0] = lines[0][lines[0].index("Tok.:") :]
        for name, what in run["replay"]["acceptance"].items():
            lines.append(
                f"{name}: replays {what['tok']:.2f} tokens an iteration; {what['distribution']}."
            )
    quality = run["quality"]
    if quality:
        lines.append(f"BLEU: on {quality['on']}; sacrebleu {quality['signature']}.")
    count = run["provenance"].get("threads")
    loads = [part["load_average"][0] for part in run["runs"] if part.get("load_average")]
    if count and loads and max(loads) > count + 1:
        lines.append(
            f"The machine was busy (load average {max(loads):.0f}): times depend on what else ran "
            "when, and on how the system shares its processors among processes. With one thread, "
            "CPU depends less on that. Measure again on a quiet machine."
        )
    lines += threads.notes(run)
    if run["energy"]:
        lines.append(
            f"J: energy of {run['energy']} a sentence, over passes of this system alone; what the "
            "device takes when idle, and for whatever else runs, is in it."
        )
    if run["memory"]:
        lines.append(f"MB: {run['memory']}.")
    return lines
