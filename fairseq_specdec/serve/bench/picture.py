"""How long answers take against how many a second there are, drawn by matplotlib (the extra
``plots``)."""

import io
import os
from collections.abc import Sequence
from typing import Any

from fairseq_specdec.io.atomic import write_bytes

STROKES = {"50": "-", "95": "--"}  # by percentile
ENDINGS = (".png", ".svg")


def curves(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The open loads of each server, which are its shares of the capacity, in rising order."""
    servers: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["load"].endswith("%") and row["answered"]:
            servers.setdefault(row["server"], []).append(row)
    return {name: sorted(part, key=lambda row: row["per_second"]) for name, part in servers.items()}


def draw(path: str, rows: Sequence[dict[str, Any]], machine: str) -> None:
    """Write the picture, of the kind that its name ends in."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "load"  # the same file of the same figures
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for number, (server, loads) in enumerate(curves(rows).items()):
        answered = [row["per_second"] for row in loads]
        for percent, stroke in STROKES.items():
            times = [1000 * row["latency"][percent] for row in loads]
            label = f"{server}, p{percent}"
            axes.plot(answered, times, f"o{stroke}", color=f"C{number}", label=label, markersize=4)
    axes.set(xlabel="answers a second", ylabel="ms of a request", yscale="log")
    axes.set_title(machine, fontsize=8, color="0.4")
    axes.legend(fontsize=7)
    kind = os.path.splitext(path)[1]
    buffer = io.BytesIO()
    dated = {"Date": None} if kind == ".svg" else {}
    figure.savefig(buffer, format=kind[1:], dpi=110, metadata=dated)
    write_bytes(path, buffer.getvalue())
