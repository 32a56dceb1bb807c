"""Pictures of the results of ``specdec-bench``, drawn by matplotlib (the extra ``plots``)."""

from __future__ import annotations

import statistics
from typing import Any, Dict, List, Optional, Tuple

from fairseq_specdec.decoding.stats import SECTIONS

from . import sweep_plots
from .canvas import Picture, figure_of, legend, look, plain, png, require
from .tables import section_title

__all__ = ["Picture", "draw", "require"]
BINS = 30
MOST = 15  # lines that one picture bears


def _medians(xs: List[float], ys: List[float]) -> Tuple[List[float], List[float]]:
    """Median of each tenth of the points, by ascending x."""
    points = sorted(zip(xs, ys))
    size = max(1, -(-len(points) // 10))
    parts = [points[i : i + size] for i in range(0, len(points), size)]
    return (
        [statistics.median(x for x, _ in part) for part in parts],
        [statistics.median(y for _, y in part) for part in parts],
    )


def _series(run: Dict[str, Any], system: str, key: str) -> List[float]:
    rows = [row for part in run["runs"] for row in part["rows"] if row["system"] == system]
    return [row[key] for row in rows]


def _shown(run: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Rows to draw together; where they are many, the swept ones have pictures of their own."""
    rows: List[Dict[str, Any]] = run["runs"][0]["rows"]
    return rows if len(rows) <= MOST else [row for row in rows if not row["sweep"]]


def _names(run: Dict[str, Any]) -> List[str]:
    return [row["system"] for row in _shown(run)]


def latency_and_throughput(run: Dict[str, Any]) -> Optional[Picture]:
    """A line a system, a point a batch size (Xia et al., Figure 5); None for one batch size."""
    if len(run["runs"]) < 2:
        return None
    figure, (axes,) = figure_of()
    for line, name in enumerate(_names(run)):
        speed, wait = (_series(run, name, k) for k in ("tokens_per_second", "ms_median"))
        axes.plot(speed, wait, marker="o", markersize=4, label=plain(name), **look(line))
        for part, x, y in zip(run["runs"], speed, wait):
            axes.annotate(str(part["batch_size"]), (x, y), fontsize=7, xytext=(3, 3),
                          textcoords="offset points")  # fmt: skip
    axes.set(xlabel="tokens a second", ylabel="median latency of a batch, ms", yscale="log")
    legend(axes)
    caption = "Latency and throughput; the numbers at the points are batch sizes."
    return Picture("latency_throughput", caption, png(figure))


def speed_by_batch(run: Dict[str, Any]) -> Optional[Picture]:
    """A line a system over batch sizes, against stock beam 5 at the largest (Ge et al., Figures 6
    and 7); None for one batch size."""
    if len(run["runs"]) < 2:
        return None
    order = sorted(range(len(run["runs"])), key=lambda i: run["runs"][i]["batch_size"])
    sizes = [run["runs"][i]["batch_size"] for i in order]
    base = _series(run, "fairseq beam 5", "sentences_per_second")[order[-1]]
    figure, (axes,) = figure_of()
    for line, name in enumerate(_names(run)):
        speed = _series(run, name, "sentences_per_second")
        axes.plot(
            [str(size) for size in sizes],
            [speed[i] / base for i in order],
            marker="o",
            markersize=4,
            label=plain(name),
            **look(line),
        )
    axes.axhline(1, color="0.7", linewidth=0.8, zorder=0)
    axes.set(xlabel="batch size", ylabel=f"speed over stock beam 5 at batch size {sizes[-1]}")
    legend(axes)
    caption = f"Speed by batch size; 1 is stock beam 5 at batch size {sizes[-1]}."
    return Picture("speed_by_batch", caption, png(figure))


def speed_up_distribution(run: Dict[str, Any]) -> Optional[Picture]:
    """How many sentences are how many times faster than with beam 5 (Ge et al., Figure 8; Xia et
    al., Figure 6); None without a run at batch size 1."""
    speed_ups = [part["speed_ups"] for part in run["runs"] if part["speed_ups"]]
    if not speed_ups:
        return None
    names = [name for name in _names(run) if name != "fairseq beam 5"]
    shown = {name: speed_ups[0][name] for name in names if name in speed_ups[0]}
    if not shown:
        return None
    figure, panels = figure_of(rows=len(shown), height=1.05)
    most = max(max(values) for values in shown.values())
    for axes, (line, (name, values)) in zip(panels, enumerate(shown.items())):
        axes.hist(values, BINS, (0, most), color=look(line)["color"], alpha=0.6)
        axes.axvline(statistics.median(values), color="0.2", linewidth=1.2)
        axes.axvline(1, color="0.7", linewidth=0.8, zorder=0)
        axes.set_title(plain(name), fontsize=8, loc="left", pad=2)
        axes.tick_params(labelsize=7)
        if axes is not panels[-1]:
            axes.sharex(panels[-1])
        axes.tick_params(axis="x", labelbottom=axes is panels[-1])
    panels[-1].set_xlabel("speed-up over stock beam 5, sentence by sentence")
    figure.supylabel("sentences", fontsize=9)
    caption = (
        "Distribution of the speed-up of single sentences over stock beam 5, batch size 1; the "
        "dark line is a system's median."
    )
    return Picture("speed_up_distribution", caption, png(figure))


def speed_up_by_edits(run: Dict[str, Any]) -> Optional[Picture]:
    """A point a sentence for input copying (Ge et al., Figure 5); None without such a system."""
    found = {
        name: (points["edit_ratio"], points["speed_up"])
        for part in run["runs"]
        for name, points in part["by_edit_ratio"].items()
    }
    if not found:
        return None
    figure, (axes,) = figure_of()
    for line, (name, (ratios, speeds)) in enumerate(found.items()):
        colour = f"C{line % 10}"
        axes.scatter(ratios, speeds, s=10, alpha=0.5, color=colour, label=plain(name))
        axes.plot(*_medians(ratios, speeds), color=colour, marker="_", markersize=12)
    axes.set(
        xlabel="edit distance of source and output over the source's length",
        ylabel="speed-up over stock beam 1",
    )
    legend(axes)
    caption = (
        "Speed-up of input copying over stock beam 1 against the edit ratio, batch size 1; the "
        "line joins the medians of tenths of the sentences."
    )
    return Picture("speed_up_by_edits", caption, png(figure))


def time_split(run: Dict[str, Any]) -> Optional[Picture]:
    """Where the time of a sentence goes (Ge et al. 2022, Table 15), at the first batch size."""
    part = run["runs"][0]
    rows = [row for row in _shown(run) if row["ms_by_section"]][::-1]
    figure, (axes,) = figure_of()
    names = [plain(row["system"]) for row in rows]
    left = [0.0] * len(rows)
    for section in SECTIONS:
        widths = [row["ms_by_section"][section] for row in rows]
        axes.barh(names, widths, left=left, label=section_title(section))
        left = [a + b for a, b in zip(left, widths)]
    axes.set(xlabel="ms a sentence")
    axes.tick_params(axis="y", labelsize=7)
    legend(axes)
    caption = f"Time of a sentence by section, batch size {part['batch_size']}."
    return Picture("time_split", caption, png(figure))


def draw(run: Dict[str, Any]) -> List[Picture]:
    """Every picture that the results give.

    Args:
        run: what ``--json`` writes.
    """
    single = (
        latency_and_throughput,
        speed_by_batch,
        speed_up_distribution,
        speed_up_by_edits,
        time_split,
    )
    found = [make(run) for make in single]
    return [picture for picture in found if picture is not None] + sweep_plots.sweeps(run)
