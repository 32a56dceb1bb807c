"""Pictures of the results of ``specdec-bench``, as the papers draw them, by matplotlib (the extra
``plots``)."""

from __future__ import annotations

import io
import math
import re
from typing import Any, Dict, List, NamedTuple, Sequence

from fairseq_specdec.decoding.stats import SECTIONS

from .tables import section_title, title

WIDTH, HEIGHT = 7.0, 4.2  # inches

MOST = 15  # lines that one picture bears
SYMBOLS = {
    "block_size": "k", "top_beta": "β", "tau": "τ", "alpha_fb": "α_FB", "alpha_rb": "α_RB",
}  # fmt: skip
OVER_A_FLAG = {
    "speed_beam5": "speed-up over stock beam 5", "tok": "tokens an iteration", "bleu": "BLEU",
}  # fmt: skip

Rows = List[Dict[str, Any]]


class Picture(NamedTuple):
    """A picture: its file's name without the ending, what it shows in words, the file's content."""

    name: str
    caption: str
    png: bytes


def figure_of(rows: int = 1, height: float = HEIGHT) -> Any:
    """A figure of one panel a row, of so many inches, and the list of their axes."""
    from matplotlib.figure import Figure

    # No pyplot: nothing global is set and no window system is asked for.
    figure = Figure(figsize=(WIDTH, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, squeeze=False)[:, 0])


def picture(run: Dict[str, Any], name: str, caption: str, figure: Any) -> Picture:
    """The figure as a picture: titled, with what was measured on what, and a legend beside axes
    that it would hide. The title is the caption up to its first comma or semicolon."""
    figure.suptitle(plain(re.split("[,;.] |[.]$", caption)[0]), fontsize=11)
    figure.axes[0].set_title(plain(measured_on(run)), fontsize=7, color="0.4")
    for axes in figure.axes:
        names = [name for name in axes.get_legend_handles_labels()[1] if name]
        many = len(names) > 6
        beside = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0}
        if names:
            axes.legend(fontsize=6 if many else 7, **(beside if many else {}))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return Picture(name, caption, buffer.getvalue())


def measured_on(run: Dict[str, Any]) -> str:
    """What was decoded, the machine and its threads, in a line."""
    facts = run["provenance"]
    threads = facts["threads"]
    what = title(run).split(": ", 1)[1]
    return f"{what}; {facts['machine']['device']}, {threads} thread{'s' * (threads > 1)}"


def plain(text: str) -> str:
    """Text that matplotlib does not read as mathematics."""
    return text.replace("$", r"\$")


def look(line: int) -> Dict[str, Any]:
    """Colour and stroke of a line, different for the first forty."""
    return {"color": f"C{line % 10}", "linestyle": ("-", "--", ":", "-.")[line // 10 % 4]}


def line_of(axes: Any, number: int, name: str, xs: Sequence[Any], ys: Sequence[float]) -> None:
    """A named line through points."""
    axes.plot(xs, ys, marker="o", markersize=4, label=plain(name), **look(number))


def write_at(axes: Any, texts: Sequence[Any], xs: Sequence[float], ys: Sequence[float]) -> None:
    """Small texts beside points."""
    for text, *place in zip(map(str, texts), xs, ys):
        axes.annotate(plain(text), place, (4, 4), fontsize=6, textcoords="offset points")


def _shown(run: Dict[str, Any]) -> Dict[str, int]:
    """Systems to draw together, by a number that gives each one colour in all pictures; where they
    are many, the swept ones have pictures of their own."""
    rows = run["runs"][0]["rows"]
    few = len(rows) <= MOST
    return {row["system"]: n for n, row in enumerate(rows) if few or not row["sweep"]}


def _series(parts: Rows, system: str, key: str) -> List[float]:
    """A figure of a system at these batch sizes."""
    rows = [row for part in parts for row in part["rows"] if row["system"] == system]
    return [row[key] for row in rows]


def latency_and_throughput(run: Dict[str, Any]) -> Picture:
    """A line a system, a point a batch size (Xia et al. 2023, Figure 5)."""
    figure, (axes,) = figure_of()
    sizes = [part["batch_size"] for part in run["runs"]]
    for name, number in _shown(run).items():
        speed, wait = (_series(run["runs"], name, k) for k in ("tokens_per_second", "ms_median"))
        line_of(axes, number, name, speed, wait)
        write_at(axes, sizes, speed, wait)
    axes.set(xlabel="tokens a second", ylabel="median latency of a batch, ms", yscale="log")
    caption = "Latency and throughput; the numbers at the points are batch sizes."
    return picture(run, "latency_throughput", caption, figure)


def speed_by_batch(run: Dict[str, Any]) -> Picture:
    """A line a system over batch sizes (Ge et al. 2022, Figures 6 and 7)."""
    parts = sorted(run["runs"], key=lambda part: int(part["batch_size"]))
    sizes = [str(part["batch_size"]) for part in parts]
    figure, (axes,) = figure_of()
    for name, number in _shown(run).items():
        line_of(axes, number, name, sizes, _series(parts, name, "speed_beam5"))
    axes.set(xlabel="batch size", ylabel="speed over stock beam 5 at the same batch size")
    caption = "Speed by batch size, over stock beam 5 at the same batch size."
    return picture(run, "speed_by_batch", caption, figure)


def speed_up_distribution(run: Dict[str, Any], times: Dict[str, List[float]]) -> Picture:
    """How many times faster than with beam 5 single sentences are (Ge et al. 2022, Figure 8; Xia
    et al. 2023, Figure 6)."""
    base, names = times["fairseq beam 5"], _shown(run)
    names.pop("fairseq beam 5")
    speed_ups = [[a / b for a, b in zip(base, times[name])] for name in names]
    figure, (axes,) = figure_of()
    places = range(len(names))
    violins = axes.violinplot(speed_ups, places, widths=0.9, showmedians=True)
    for number, body in zip(names.values(), violins["bodies"]):
        body.set_facecolor(look(number)["color"])
    axes.axhline(1, color="0.7", linewidth=0.8, zorder=0)
    axes.set_xticks(places, labels=list(map(plain, names)), fontsize=7, rotation=30)
    axes.set(ylabel="speed-up over stock beam 5")
    caption = (
        "Speed-up of single sentences over stock beam 5, batch size 1: its distribution, range and "
        "median."
    )
    return picture(run, "speed_up_distribution", caption, figure)


def time_split(run: Dict[str, Any]) -> Picture:
    """Where the time of a sentence goes (Ge et al. 2022, Table 15), at the first batch size."""
    shown = [row for row in run["runs"][0]["rows"] if row["system"] in _shown(run)]
    rows = [row for row in shown if row["ms_by_section"]][::-1]
    figure, (axes,) = figure_of()
    names = [plain(row["system"]) for row in rows]
    left = [0.0] * len(rows)
    for section in SECTIONS:
        widths = [row["ms_by_section"][section] for row in rows]
        axes.barh(names, widths, left=left, label=section_title(section))
        left = [a + b for a, b in zip(left, widths)]
    axes.set(xlabel="ms a sentence")
    axes.tick_params(axis="y", labelsize=7)
    caption = f"Time of a sentence by section, batch size {run['runs'][0]['batch_size']}."
    return picture(run, "time_split", caption, figure)


def _named(flag: str) -> str:
    """A flag, and the papers' symbol of it."""
    return f"{flag} ({SYMBOLS[flag]})" if flag in SYMBOLS else flag


def _places(values: List[str]) -> List[Any]:
    """Numbers where all values are finite ones, else the values as names in a row."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return values
    return numbers if all(map(math.isfinite, numbers)) else values


def _curves(rows: Rows, flag: str) -> Dict[str, Rows]:
    """Rows that differ in this flag alone, by the values of the others."""
    found: Dict[str, Rows] = {}
    for row in rows:
        rest = [f"{name}={value}" for name, value in row["sweep"].items() if name != flag]
        found.setdefault(" ".join(rest), []).append(row)
    return found


def _over_a_flag(rows: Rows, flag: str) -> Any:
    """Speed, tokens an iteration and BLEU over the values of a flag (Ge et al. 2022, Tables 6 and
    7; Xia et al. 2023, Tables 3 and 4)."""
    shown = [key for key in OVER_A_FLAG if all(row.get(key) is not None for row in rows)]
    figure, panels = figure_of(rows=len(shown), height=3.0)
    for axes, key in zip(panels, shown):
        for number, (name, members) in enumerate(_curves(rows, flag).items()):
            places = _places([row["sweep"][flag] for row in members])
            line_of(axes, number, name, places, [row[key] for row in members])
            if not isinstance(places[0], str):
                axes.set_xticks(sorted(set(places)), labels=[f"{x:g}" for x in sorted(set(places))])
        axes.set(xlabel=_named(flag), ylabel=OVER_A_FLAG[key])
    return figure


def _trade_off(rows: Rows, flag: str) -> Any:
    """BLEU against time, a curve for each value of the other flags, larger points for later values
    of this one (Kim et al. 2023, Figure 10)."""
    figure, (axes,) = figure_of()
    for number, (name, members) in enumerate(_curves(rows, flag).items()):
        times, scores = ([row[key] for row in members] for key in ("ms_mean", "bleu"))
        sizes = [12 + 14 * place for place in range(len(members))]
        axes.plot(times, scores, label=plain(name), linewidth=1, **look(number))
        axes.scatter(times, scores, sizes, color=look(number)["color"], alpha=0.7)
        write_at(axes, [row["sweep"][flag] for row in members], times, scores)
    axes.set(xlabel="ms a sentence", ylabel="BLEU")
    return figure


def sweeps(run: Dict[str, Any]) -> List[Picture]:
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
            pictures.append(picture(run, name, caption, _over_a_flag(mine, flag)))
        if len(mine) > 2 and all(row.get("bleu") is not None for row in mine):
            caption = (
                f"{base}: BLEU against time, {where}; the numbers, and the size of the points, are "
                f"{_named(flags[0])}."
            )
            pictures.append(
                picture(run, f"trade_off_{number}", caption, _trade_off(mine, flags[0]))
            )
    return pictures


def draw(run: Dict[str, Any]) -> List[Picture]:
    """Every picture that the results (what ``--json`` writes) give."""
    pictures = []
    if len(run["runs"]) > 1:
        pictures += [latency_and_throughput(run), speed_by_batch(run)]
    for part in run["runs"]:
        if part["batch_size"] == 1:
            pictures.append(speed_up_distribution(run, part["ms_by_batch"]))
    return [*pictures, time_split(run), *sweeps(run)]
