"""Pictures of the results of ``specdec-bench``, drawn by matplotlib (the extra ``plots``)."""

from __future__ import annotations

import importlib.util
import io
from typing import Any, Dict, List, NamedTuple, Optional

from fairseq_specdec.generation.stats import SECTIONS

from .workload import BenchError

WIDTH, HEIGHT = 7.0, 4.2  # inches
BINS = 30


class Picture(NamedTuple):
    """A picture.

    Attributes:
        name: of its file, without the ending.
        caption: what it shows, in words.
        png: the file's content.
    """

    name: str
    caption: str
    png: bytes


def require(flag: str) -> None:
    """Refuse to go on without matplotlib.

    Raises:
        BenchError: naming the flag and the remedy.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise BenchError(
            f"{flag}: needs matplotlib; install it with pip install fairseq_specdec[plots], or "
            "leave the flag out"
        )


def _figure(rows: int = 1, columns: int = 1) -> Any:
    from matplotlib.figure import Figure

    # No pyplot: nothing global is set and no window system is asked for.
    figure = Figure(figsize=(WIDTH, HEIGHT * rows), layout="constrained")
    return figure, figure.subplots(rows, columns)


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _plain(text: str) -> str:
    return text.replace("$", r"\$")  # matplotlib would read mathematics


def _series(run: Dict[str, Any], system: str, key: str) -> List[float]:
    rows = [row for part in run["runs"] for row in part["rows"] if row["system"] == system]
    return [row[key] for row in rows]


def _names(run: Dict[str, Any]) -> List[str]:
    return [row["system"] for row in run["runs"][0]["rows"]]


def latency_and_throughput(run: Dict[str, Any]) -> Optional[Picture]:
    """A line a system, a point a batch size (paper 004, Figure 5); None for one batch size."""
    if len(run["runs"]) < 2:
        return None
    figure, axes = _figure()
    for name in _names(run):
        speed, wait = (_series(run, name, k) for k in ("tokens_per_second", "ms_median"))
        axes.plot(speed, wait, marker="o", markersize=4, label=_plain(name))
        for part, x, y in zip(run["runs"], speed, wait):
            axes.annotate(str(part["batch_size"]), (x, y), fontsize=7, xytext=(3, 3),
                          textcoords="offset points")  # fmt: skip
    axes.set(xlabel="tokens a second", ylabel="median latency of a batch, ms", yscale="log")
    axes.legend(fontsize=7)
    caption = "Latency and throughput; the numbers at the points are batch sizes."
    return Picture("latency_throughput", caption, _png(figure))


def speed_up_distribution(run: Dict[str, Any]) -> Optional[Picture]:
    """How many sentences are how many times faster than with beam 5 (paper 000, Figure 8; paper
    004, Figure 6); None without a run at batch size 1."""
    speed_ups = [part["speed_ups"] for part in run["runs"] if part["speed_ups"]]
    if not speed_ups:
        return None
    figure, axes = _figure()
    shown = {n: v for n, v in speed_ups[0].items() if not n.startswith("fairseq beam 5")}
    most = max(max(values) for values in shown.values())
    for name, values in shown.items():
        axes.hist(values, BINS, (0, most), histtype="step", linewidth=1.4, label=_plain(name))
    axes.set(xlabel="speed-up over stock beam 5, sentence by sentence", ylabel="sentences")
    axes.legend(fontsize=7)
    caption = "Distribution of the speed-up of single sentences over stock beam 5, batch size 1."
    return Picture("speed_up_distribution", caption, _png(figure))


def speed_up_by_edits(run: Dict[str, Any]) -> Optional[Picture]:
    """A point a sentence for input copying (paper 000, Figure 5); None without such a system."""
    found = {
        name: (points["edit_ratio"], points["speed_up"])
        for part in run["runs"]
        for name, points in part["by_edit_ratio"].items()
    }
    if not found:
        return None
    figure, axes = _figure()
    for name, (ratios, speeds) in found.items():
        axes.scatter(ratios, speeds, s=10, alpha=0.6, label=_plain(name))
    axes.set(
        xlabel="edit distance of source and output over the source's length",
        ylabel="speed-up over stock beam 1",
    )
    axes.legend(fontsize=7)
    caption = "Speed-up of input copying over stock beam 1 against the edit ratio, batch size 1."
    return Picture("speed_up_by_edits", caption, _png(figure))


def time_split(run: Dict[str, Any]) -> Optional[Picture]:
    """Where the time of a sentence goes (paper 000, Table 15), at the first batch size."""
    part = run["runs"][0]
    rows = [row for row in part["rows"] if row["ms_by_section"]][::-1]
    figure, axes = _figure()
    names = [_plain(row["system"]) for row in rows]
    left = [0.0] * len(rows)
    for section in SECTIONS:
        widths = [row["ms_by_section"][section] for row in rows]
        axes.barh(names, widths, left=left, label=section)
        left = [a + b for a, b in zip(left, widths)]
    axes.set(xlabel="ms a sentence")
    axes.tick_params(axis="y", labelsize=7)
    axes.legend(fontsize=7)
    caption = f"Time of a sentence by section, batch size {part['batch_size']}."
    return Picture("time_split", caption, _png(figure))


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def sweeps(run: Dict[str, Any]) -> List[Picture]:
    """For each swept system, speed and BLEU over the first of its flags."""
    rows = [row for row in run["runs"][0]["rows"] if row["sweep"]]
    pictures = []
    for i, base in enumerate(dict.fromkeys(row["base"] for row in rows)):
        mine = [row for row in rows if row["base"] == base]
        first = next(iter(mine[0]["sweep"]))
        lines: Dict[str, List[Dict[str, Any]]] = {}
        for row in mine:
            rest = [f"{k}={v}" for k, v in row["sweep"].items() if k != first]
            lines.setdefault(" ".join(rest), []).append(row)
        figure, panels = _figure(rows=2)
        for axes, key, label in zip(
            panels, ("speed_beam5", "bleu"), ("speed-up over stock beam 5", "BLEU")
        ):
            for name, members in lines.items():
                points = [(_number(r["sweep"][first]), r[key]) for r in members]
                if all(y is not None for _, y in points):
                    axes.plot(*zip(*points), marker="o", markersize=4, label=_plain(name))
            axes.set(xlabel=first, ylabel=label)
            if any(lines):
                axes.legend(fontsize=7)
        caption = f"{base}: speed and BLEU over {first}."
        pictures.append(Picture(f"sweep_{i + 1}", caption, _png(figure)))
    return pictures


def draw(run: Dict[str, Any]) -> List[Picture]:
    """Every picture that the results give.

    Args:
        run: what ``--json`` writes.
    """
    single = (latency_and_throughput, speed_up_distribution, speed_up_by_edits, time_split)
    found = [make(run) for make in single]
    return [picture for picture in found if picture is not None] + sweeps(run)
