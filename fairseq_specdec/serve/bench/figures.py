"""Which loads are asked for, and what they came to (pure functions)."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from fairseq_specdec.errors import UsageError

from .load import LOST, UNREAD, Answer

# Clients of the closed loop whose answers a second are the server's capacity.
FILLING = 32
PERCENTS = (50, 95, 99, 100)


class Load(NamedTuple):
    """One load."""

    name: str  # as it was asked for
    clients: int  # of a closed loop; 0 for an open one
    share: float  # of the capacity, of an open loop; 0 for a closed one


def loads_of(text: str) -> list[Load]:
    """The loads that ``--bench-loads`` lists."""
    parsed = []
    for word in text.split(","):
        match = re.fullmatch(r"([1-9]\d{0,3})(%?)", word.strip())
        if match is None:
            raise UsageError(
                f"--bench-loads {text}",
                "expected numbers of clients and shares of the capacity, as in 1,8,80%",
            )
        number, shared = int(match.group(1)), bool(match.group(2))
        parsed.append(Load(word.strip(), 0 if shared else number, number / 100 if shared else 0))
    return parsed


def percentile(seconds: Sequence[float], percent: int) -> float | None:
    """The smallest that is at least as large as this share of them; None of none."""
    ordered = sorted(seconds)
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)] if ordered else None


class State(NamedTuple):
    """A server's figures in ``/metrics``; NaN where this system has none. ``cpu``:
    seconds of CPU time of its process. ``sentences``, ``batches``: decoded."""

    cpu: float
    resident: float
    sentences: float
    batches: float


def state_of(text: str) -> State:
    values: dict[str, float] = Counter()
    for line in text.splitlines():
        name, _, value = line.partition("#")[0].rpartition(" ")
        if name:
            values[name.partition("{")[0]] += float(value)
    return State(
        values.get("process_cpu_seconds_total", math.nan),
        values.get("process_resident_memory_bytes", math.nan),
        values["specdec_batch_sentences_sum"],
        values["specdec_batch_sentences_count"],
    )


def figures(
    name: str, answers: Sequence[Answer], seconds: float, before: State, after: State
) -> dict[str, Any]:
    """What a load came to. Returns numbers that JSON can hold; None for unknown ones."""
    served = [each.seconds for each in answers if each.status == 200]
    statuses = Counter(each.status for each in answers)
    batches = after.batches - before.batches
    cpu = after.cpu - before.cpu
    most = {str(percent): percentile(served, percent) for percent in PERCENTS}
    return {
        "load": name,
        "requests": len(answers),
        "answered": len(served),
        "other_texts": sum(each.status == 200 and not each.right for each in answers),
        "refused": statuses[429],
        "failed": {str(k): n for k, n in statuses.items() if k not in (200, 429, LOST, UNREAD)},
        "lost": statuses[LOST] + statuses[UNREAD],
        "seconds": seconds,
        "per_second": len(served) / seconds,
        "latency": most,
        "cpu": _known(cpu),
        "cpu_per_answer": _known(cpu / len(served)) if served else None,
        "together": (after.sentences - before.sentences) / batches if batches else None,
        "resident": [_known(before.resident), _known(after.resident)],
        "memory_growth": _known(after.resident / before.resident - 1),
    }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


COLUMNS = (
    "server", "load", "answered", "other texts", "refused (429)", "failed, lost", "a second",
    "p50", "p95", "p99", "most", "CPU", "together", "memory",
)  # fmt: skip
LEGEND = (
    "Load: clients of a closed loop, or requests a second of an open one as a share of the "
    f"capacity, which is what {FILLING} clients are answered. Other texts: not the hub's. p50 to "
    "most: milliseconds of an answered request. CPU: milliseconds of the server's process for each "
    "answered request. Together: texts in a batch, on average. Memory: growth during the load."
)


def row(server: str, figures: dict[str, Any]) -> str:
    """A row of the table."""
    cells = [
        server, figures["load"], figures["answered"], figures["other_texts"], figures["refused"],
        f"{sum(figures['failed'].values())}, {figures['lost']}", f"{figures['per_second']:.1f}",
        *(_shown(each, "{:.1f}", 1000) for each in figures["latency"].values()),
        _shown(figures["cpu_per_answer"], "{:.1f}", 1000), _shown(figures["together"], "{:.1f}"),
        _shown(figures["memory_growth"], "{:+.1f}%", 100),
    ]  # fmt: skip
    return line(cells)


def _shown(value: float | None, form: str, scale: float = 1) -> str:
    return "-" if value is None else form.format(scale * value)


def line(cells: Sequence[Any]) -> str:
    """Cells as a line of a table in Markdown."""
    return "| " + " | ".join(map(str, cells)) + " |\n"


def head() -> str:
    """The first two lines of the table."""
    return line(COLUMNS) + line(["---", "---", *["---:"] * (len(COLUMNS) - 2)])
