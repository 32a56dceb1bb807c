"""Pictures of swept flags."""

from __future__ import annotations

import math
from typing import Any, Dict, List

from .canvas import Picture, figure_of, legend, look, plain, png

SYMBOLS = {
    "block_size": "k",
    "top_beta": "β",
    "tau": "τ",
    "alpha_fb": "α_FB",
    "alpha_rb": "α_RB",
}


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


def _lines(rows: List[Dict[str, Any]], first: str) -> Dict[str, List[Dict[str, Any]]]:
    """Rows that differ in the first flag alone, by the values of the others."""
    found: Dict[str, List[Dict[str, Any]]] = {}
    for row in rows:
        rest = [f"{name}={value}" for name, value in row["sweep"].items() if name != first]
        found.setdefault(" ".join(rest), []).append(row)
    return found


def _over_a_flag(rows: List[Dict[str, Any]], first: str) -> Any:
    """Speed, tokens an iteration and BLEU over the values of a flag (Ge et al., Tables 6 and 7;
    Xia et al. 2023, Tables 3 and 4)."""
    shown = [
        (key, label)
        for key, label in (
            ("speed_beam5", "speed-up over stock beam 5"),
            ("tok", "tokens an iteration"),
            ("bleu", "BLEU"),
        )
        if all(row.get(key) is not None for row in rows)
    ]
    figure, panels = figure_of(rows=len(shown), height=3.0)
    for axes, (key, label) in zip(panels, shown):
        for number, (name, members) in enumerate(_lines(rows, first).items()):
            places = _places([row["sweep"][first] for row in members])
            heights = [row[key] for row in members]
            axes.plot(places, heights, marker="o", markersize=4, label=plain(name), **look(number))
            if not isinstance(places[0], str):
                axes.set_xticks(sorted(set(places)), labels=[f"{x:g}" for x in sorted(set(places))])
        axes.set(xlabel=_named(first), ylabel=label)
        if any(_lines(rows, first)):
            legend(axes)
    return figure


def _trade_off(rows: List[Dict[str, Any]], first: str) -> Any:
    """BLEU against time, a curve for each value of the other flags, larger points for later values
    of the first (Kim et al. 2023, Figure 10)."""
    figure, (axes,) = figure_of()
    for number, (name, members) in enumerate(_lines(rows, first).items()):
        times = [row["ms_mean"] for row in members]
        scores = [row["bleu"] for row in members]
        stroke = look(number)
        sizes = [12 + 14 * place for place in range(len(members))]
        axes.plot(times, scores, label=plain(name), linewidth=1, **stroke)
        axes.scatter(times, scores, sizes, color=stroke["color"], alpha=0.7)
        for row, x, y in zip(members, times, scores):
            axes.annotate(plain(row["sweep"][first]), (x, y), fontsize=6, xytext=(4, 4),
                          textcoords="offset points")  # fmt: skip
    axes.set(xlabel="ms a sentence", ylabel="BLEU")
    if any(_lines(rows, first)):
        legend(axes)
    return figure


def sweeps(run: Dict[str, Any]) -> List[Picture]:
    """For each swept system, what its flags do to speed and BLEU, and the two against each other.

    Args:
        run: what ``--json`` writes.
    """
    part = run["runs"][0]
    rows = [row for row in part["rows"] if row["sweep"]]
    pictures = []
    for number, base in enumerate(dict.fromkeys(row["base"] for row in rows), 1):
        mine = [row for row in rows if row["base"] == base]
        flags = list(mine[0]["sweep"])
        where = f"batch size {part['batch_size']}"
        for flag in flags:
            name = f"sweep_{number}" if len(flags) == 1 else f"sweep_{number}_{flag}"
            caption = f"{base}: speed and quality over {_named(flag)}, {where}."
            pictures.append(Picture(name, caption, png(_over_a_flag(mine, flag))))
        if len(mine) > 2 and all(row.get("bleu") is not None for row in mine):
            caption = (
                f"{base}: BLEU against time, {where}; the numbers, and the size of the points, are "
                f"{_named(flags[0])}."
            )
            figure = _trade_off(mine, flags[0])
            pictures.append(Picture(f"trade_off_{number}", caption, png(figure)))
    return pictures
