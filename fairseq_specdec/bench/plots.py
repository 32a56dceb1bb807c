"""Pictures of the results of ``specdec-bench``, as the papers draw them, by matplotlib (the extra
``plots``)."""

import io
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from fairseq_specdec.decoding.stats import SECTIONS

from .tables import section_title, title

WIDTH, HEIGHT = 7.0, 4.2  # inches
LOW = 3.0  # of one of several panels

MOST = 15  # lines that one picture bears
SYMBOLS = {
    "block_size": "k", "top_beta": "β", "tau": "τ", "alpha_fb": "α_FB", "alpha_rb": "α_RB",
}  # fmt: skip
OVER_A_FLAG = {
    "speed_beam5": "speed-up over stock beam 5", "tok": "tokens an iteration", "bleu": "BLEU",
}  # fmt: skip

Rows = list[dict[str, Any]]


class Picture(NamedTuple):
    """A picture: its file's name without the ending, what it shows in words, the file's content."""

    name: str
    caption: str
    png: bytes


class Curve(NamedTuple):
    """What a panel shows of a system: points with texts beside them, a violin of ``ys``, or a bar
    whose sections are ``ys``. ``number`` gives the system one colour and stroke in all pictures."""

    name: str
    number: int
    xs: Sequence[Any]
    ys: Sequence[float]
    texts: Sequence[Any] = ()


class Panel(NamedTuple):
    """Curves on axes; ``kind`` is lines, bars or violins, ``more`` goes to matplotlib's axes."""

    curves: list[Curve]
    xlabel: str
    ylabel: str
    kind: str = "lines"
    more: dict[str, Any] = {}


def plain(text: str) -> str:
    """Text that matplotlib does not read as mathematics."""
    return text.replace("$", r"\$")


def _fill(axes: Any, panel: Panel) -> None:
    curves, places = panel.curves, range(len(panel.curves))
    names = [plain(curve.name) for curve in curves]
    if panel.kind == "violins":
        violins = axes.violinplot([c.ys for c in curves], places, widths=0.9, showmedians=True)
        for curve, body in zip(curves, violins["bodies"]):
            body.set_facecolor(f"C{curve.number % 10}")
        axes.axhline(1, color="0.7", linewidth=0.8, zorder=0)
        axes.set_xticks(places, labels=names, fontsize=7, rotation=30)
    elif panel.kind == "bars":
        left = [0.0] * len(curves)
        for section, widths in zip(SECTIONS, zip(*(curve.ys for curve in curves))):
            axes.barh(names, widths, left=left, label=section_title(section))
            left = [a + b for a, b in zip(left, widths)]
        axes.tick_params(axis="y", labelsize=7)
    else:
        for curve, name in zip(curves, names):
            stroke = ("-", "--", ":", "-.")[curve.number // 10 % 4]  # forty differ
            style = {"color": f"C{curve.number % 10}", "markersize": 4, "label": name}
            axes.plot(curve.xs, curve.ys, f"o{stroke}", **style)
            for text, *place in zip(map(str, curve.texts), curve.xs, curve.ys):
                axes.annotate(plain(text), place, (4, 4), fontsize=6, textcoords="offset points")
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel, **panel.more)


def figure_of(run: dict[str, Any], caption: str, panels: Sequence[Panel]) -> Any:
    """Panels one below the other: titled, with what was measured on what, and a legend beside axes
    that it would hide. The title is the caption up to its first comma or semicolon."""
    from matplotlib.figure import Figure

    # No pyplot: nothing global is set and no window system is asked for.
    height = HEIGHT if len(panels) == 1 else LOW * len(panels)
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    figure.suptitle(plain(re.split("[,;.] |[.]$", caption)[0]), fontsize=11)
    for axes, panel in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels):
        _fill(axes, panel)
        names = [name for name in axes.get_legend_handles_labels()[1] if name]
        many = len(names) > 6
        beside = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0}
        if names:
            axes.legend(fontsize=6 if many else 7, **(beside if many else {}))
    facts, what = run["provenance"], title(run).split(": ", 1)[1]
    threads = f"{facts['threads']} thread{'s' * (facts['threads'] > 1)}"
    measured = f"{what}; {facts['machine']['device']}, {threads}"
    figure.axes[0].set_title(plain(measured), fontsize=7, color="0.4")
    return figure


def picture(run: dict[str, Any], name: str, caption: str, *panels: Panel) -> Picture:
    buffer = io.BytesIO()
    figure_of(run, caption, panels).savefig(buffer, format="png", dpi=110)
    return Picture(name, caption, buffer.getvalue())


def _shown(run: dict[str, Any]) -> dict[str, int]:
    """Systems to draw together, by a number that gives each one colour in all pictures; where they
    are many, the swept ones have pictures of their own."""
    rows = run["runs"][0]["rows"]
    few = len(rows) <= MOST
    return {row["system"]: n for n, row in enumerate(rows) if few or not row["sweep"]}


def _series(parts: Rows, system: str, key: str) -> list[float]:
    """A figure of a system at these batch sizes."""
    rows = [row for part in parts for row in part["rows"] if row["system"] == system]
    return [row[key] for row in rows]


def latency_and_throughput(run: dict[str, Any]) -> Picture:
    """A line a system, a point a batch size (Xia et al. 2023, Figure 5)."""
    sizes = [part["batch_size"] for part in run["runs"]]
    curves = []
    for name, number in _shown(run).items():
        speed, wait = (_series(run["runs"], name, k) for k in ("tokens_per_second", "ms_median"))
        curves.append(Curve(name, number, speed, wait, sizes))
    caption = "Latency and throughput; the numbers at the points are batch sizes."
    labels = ("tokens a second", "median latency of a batch, ms")
    panel = Panel(curves, *labels, more={"yscale": "log"})
    return picture(run, "latency_throughput", caption, panel)


def speed_by_batch(run: dict[str, Any]) -> Picture:
    """A line a system over batch sizes (Ge et al. 2022, Figures 6 and 7)."""
    parts = sorted(run["runs"], key=lambda part: int(part["batch_size"]))
    sizes = [str(part["batch_size"]) for part in parts]
    curves = [
        Curve(name, number, sizes, _series(parts, name, "speed_beam5"))
        for name, number in _shown(run).items()
    ]
    caption = "Speed by batch size, over stock beam 5 at the same batch size."
    label = "speed over stock beam 5 at the same batch size"
    return picture(run, "speed_by_batch", caption, Panel(curves, "batch size", label))


def speed_up_distribution(run: dict[str, Any], times: dict[str, list[float]]) -> Picture:
    """How many times faster than with beam 5 single sentences are (Ge et al. 2022, Figure 8; Xia
    et al. 2023, Figure 6)."""
    base, names = times["fairseq beam 5"], _shown(run)
    names.pop("fairseq beam 5")
    curves = [
        Curve(name, number, (), [a / b for a, b in zip(base, times[name])])
        for name, number in names.items()
    ]
    caption = (
        "Speed-up of single sentences over stock beam 5, batch size 1: its distribution, range and "
        "median."
    )
    panel = Panel(curves, "", "speed-up over stock beam 5", "violins")
    return picture(run, "speed_up_distribution", caption, panel)


def time_split(run: dict[str, Any]) -> Picture:
    """Where the time of a sentence goes (Ge et al. 2022, Table 15), at the first batch size."""
    shown = [row for row in run["runs"][0]["rows"] if row["system"] in _shown(run)]
    curves = [
        Curve(row["system"], 0, (), [row["ms_by_section"][section] for section in SECTIONS])
        for row in shown[::-1]
        if row["ms_by_section"]
    ]
    caption = f"Time of a sentence by section, batch size {run['runs'][0]['batch_size']}."
    return picture(run, "time_split", caption, Panel(curves, "ms a sentence", "", "bars"))


def _named(flag: str) -> str:
    """A flag, and the papers' symbol of it."""
    return f"{flag} ({SYMBOLS[flag]})" if flag in SYMBOLS else flag


def _places(values: list[str]) -> list[Any]:
    """Numbers where all values are finite ones, else the values as names in a row."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return values
    return numbers if all(map(math.isfinite, numbers)) else values


def _curves(rows: Rows, flag: str) -> dict[str, Rows]:
    """Rows that differ in this flag alone, by the values of the others."""
    by_curve: dict[str, Rows] = {}
    for row in rows:
        rest = [f"{name}={value}" for name, value in row["sweep"].items() if name != flag]
        by_curve.setdefault(" ".join(rest), []).append(row)
    return by_curve


def _over_a_flag(rows: Rows, flag: str) -> list[Panel]:
    """Speed, tokens an iteration and BLEU over the values of a flag (Ge et al. 2022, Tables 6 and
    7; Xia et al. 2023, Tables 3 and 4)."""
    panels = []
    for key in [key for key in OVER_A_FLAG if all(row.get(key) is not None for row in rows)]:
        curves, more = [], {}
        for number, (name, members) in enumerate(_curves(rows, flag).items()):
            places = _places([row["sweep"][flag] for row in members])
            curves.append(Curve(name, number, places, [row[key] for row in members]))
            if not isinstance(places[0], str):
                more = {"xticks": sorted(set(places))}
        panels.append(Panel(curves, _named(flag), OVER_A_FLAG[key], more=more))
    return panels


def _trade_off(rows: Rows, flag: str) -> Panel:
    """BLEU against time, a curve for each value of the other flags (Kim et al. 2023, Figure 10)."""
    curves = []
    for number, (name, members) in enumerate(_curves(rows, flag).items()):
        times, scores = ([row[key] for row in members] for key in ("ms_mean", "bleu"))
        texts = [row["sweep"][flag] for row in members]
        curves.append(Curve(name, number, times, scores, texts))
    return Panel(curves, "ms a sentence", "BLEU")


def sweeps(run: dict[str, Any]) -> list[Picture]:
    """For each swept system, what its flags do to speed and BLEU, and the two against each other,
    at the first batch size."""
    where = f"batch size {run['runs'][0]['batch_size']}"
    rows = [row for row in run["runs"][0]["rows"] if row["sweep"]]
    pictures = []
    for number, base in enumerate(dict.fromkeys(row["base"] for row in rows), 1):
        mine = [row for row in rows if row["base"] == base]
        flags = list(mine[0]["sweep"])
        for flag in flags:
            name = f"sweep_{number}" if len(flags) == 1 else f"sweep_{number}_{flag}"
            caption = f"{base}: speed and quality over {_named(flag)}, {where}."
            pictures.append(picture(run, name, caption, *_over_a_flag(mine, flag)))
        if len(mine) > 2 and all(row.get("bleu") is not None for row in mine):
            caption = (
                f"{base}: BLEU against time, {where}; the numbers at the points are "
                f"{_named(flags[0])}."
            )
            pictures.append(
                picture(run, f"trade_off_{number}", caption, _trade_off(mine, flags[0]))
            )
    return pictures


def draw(run: dict[str, Any]) -> list[Picture]:
    """Every picture that the results (what ``--json`` writes) give."""
    pictures = []
    if len(run["runs"]) > 1:
        pictures += [latency_and_throughput(run), speed_by_batch(run)]
    for part in run["runs"]:
        if part["batch_size"] == 1:
            pictures.append(speed_up_distribution(run, part["ms_by_batch"]))
    return [*pictures, time_split(run), *sweeps(run)]
