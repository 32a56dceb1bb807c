"""What every picture of ``specdec-bench`` is drawn on, by matplotlib (the extra ``plots``)."""

from __future__ import annotations

import importlib.util
import io
from typing import Any, Dict, NamedTuple, Sequence

from .workload import BenchError

WIDTH, HEIGHT = 7.0, 4.2  # inches


class Picture(NamedTuple):
    """A picture: its file's name without the ending, what it shows in words, the file's content."""

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


def figure_of(rows: int = 1, height: float = HEIGHT) -> Any:
    """A figure of one panel a row, of so many inches, and the list of their axes."""
    from matplotlib.figure import Figure

    # No pyplot: nothing global is set and no window system is asked for.
    figure = Figure(figsize=(WIDTH, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, squeeze=False)[:, 0])


def picture(name: str, caption: str, figure: Any) -> Picture:
    """The figure as a picture, with a legend beside axes that it would hide."""
    for axes in figure.axes:
        names = [name for name in axes.get_legend_handles_labels()[1] if name]
        many = len(names) > 6
        beside = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0}
        if names:
            axes.legend(fontsize=6 if many else 7, **(beside if many else {}))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return Picture(name, caption, buffer.getvalue())


def plain(text: str) -> str:
    """Text that matplotlib shows as it is."""
    return text.replace("$", r"\$")  # matplotlib would read mathematics


def look(line: int) -> Dict[str, Any]:
    """Colour and stroke of a line, different for the first forty."""
    return {"color": f"C{line % 10}", "linestyle": ("-", "--", ":", "-.")[line // 10 % 4]}


def line_of(axes: Any, number: int, name: str, xs: Sequence[Any], ys: Sequence[float]) -> None:
    """A named line through points."""
    axes.plot(xs, ys, marker="o", markersize=4, label=plain(name), **look(number))


def write_at(axes: Any, texts: Sequence[Any], xs: Sequence[float], ys: Sequence[float]) -> None:
    """Small texts beside points."""
    for text, x, y in zip(texts, xs, ys):
        axes.annotate(
            plain(str(text)), (x, y), fontsize=6, xytext=(4, 4), textcoords="offset points"
        )
