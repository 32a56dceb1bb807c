"""Pictures of the results of specdec-bench, as the papers draw them; needs matplotlib.

python benchmarks/plots.py RESULTS.json FOLDER
"""

import io
import json
import pathlib
import re
import sys
from typing import NamedTuple

from fairseq_specdec.bench.tables import title

MOST = 15  # systems that one picture shows
SYMBOLS = {
    "block_size": "k", "top_beta": "β", "tau": "τ", "alpha_fb": "α_FB", "alpha_rb": "α_RB",
}  # fmt: skip


class Picture(NamedTuple):
    """A picture: its file's name without the ending, a caption, the file's content."""

    name: str
    caption: str
    png: bytes


class Panel(NamedTuple):
    """Curves on axes: name -> (number, xs, ys, texts at the points). The number gives a system one
    colour and stroke in all pictures; ``kind`` is lines or violins; ``more`` goes to the
    axes."""

    curves: dict
    xlabel: str
    ylabel: str
    kind: str = "lines"
    more: dict = {}


def plain(text):
    """Text that matplotlib does not read as mathematics."""
    return str(text).replace("$", r"\$")


def fill(axes, panel):
    names, curves = list(map(plain, panel.curves)), panel.curves.values()
    if panel.kind == "violins":
        places = range(len(names))
        violins = axes.violinplot([ys for _, _, ys, _ in curves], places, showmedians=True)
        for (number, *_), body in zip(curves, violins["bodies"]):
            body.set_facecolor(f"C{number % 10}")
        axes.axhline(1, color="0.7", linewidth=0.8, zorder=0)
        axes.set_xticks(places, labels=names, fontsize=7, rotation=30)
    else:
        for name, (number, xs, ys, texts) in zip(names, curves):
            stroke = ("-", "--", ":", "-.")[number // 10 % 4]  # forty differ
            axes.plot(xs, ys, f"o{stroke}", color=f"C{number % 10}", markersize=4, label=name)
            for text, *place in zip(map(plain, texts), xs, ys):
                axes.annotate(text, place, (4, 4), fontsize=6, textcoords="offset points")
    axes.set(xlabel=panel.xlabel, ylabel=panel.ylabel, **panel.more)


def picture(run, name, caption, panel):
    """A panel: titled (the caption up to its first comma or semicolon), with what was measured on
    what, and a legend beside axes that it would hide."""
    from matplotlib.figure import Figure  # no pyplot: nothing global is set

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    figure.suptitle(plain(re.split("[,;.] |[.]$", caption)[0]), fontsize=11)
    axes = figure.subplots()
    fill(axes, panel)
    labels = axes.get_legend_handles_labels()[1]
    beside = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0}
    if labels:
        axes.legend(fontsize=6, **beside) if len(labels) > 6 else axes.legend(fontsize=7)
    facts, what = run["provenance"], title(run).split(": ", 1)[1]
    measured = f"{what}; {facts['machine']['device']}, threads: {facts['threads']}"
    axes.set_title(plain(measured), fontsize=7, color="0.4")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return Picture(name, caption, buffer.getvalue())


def series(parts, system, key):
    """A figure of a system at these batch sizes."""
    return [row[key] for part in parts for row in part["rows"] if row["system"] == system]


def trade_off(run, rows, number, base):
    """BLEU against time over the values of the first swept flag (Kim et al. 2023, Figure 10)."""
    flag = next(iter(rows[0]["sweep"]))
    by_curve = {}
    for row in rows:  # rows that differ in this flag alone
        rest = " ".join(f"{k}={v}" for k, v in row["sweep"].items() if k != flag)
        by_curve.setdefault(rest, []).append(row)
    curves = {
        name: (n, *([r[k] for r in members] for k in ("ms_mean", "bleu")),
               [r["sweep"][flag] for r in members])
        for n, (name, members) in enumerate(by_curve.items())
    }  # fmt: skip
    named = f"{flag} ({SYMBOLS[flag]})" if flag in SYMBOLS else flag
    where = f"batch size {run['runs'][0]['batch_size']}"
    caption = f"{base}: BLEU against time, {where}; the numbers at the points are {named}."
    panel = Panel(curves, "ms per sentence", "BLEU")
    return picture(run, f"trade_off_{number}", caption, panel)


def draw(run):
    """Every picture that results (what ``--json`` writes) give."""
    parts = sorted(run["runs"], key=lambda part: part["batch_size"])
    rows, sizes = run["runs"][0]["rows"], [part["batch_size"] for part in parts]
    few = len(rows) <= MOST  # else swept systems have pictures of their own
    shown = {row["system"]: n for n, row in enumerate(rows) if few or not row["sweep"]}
    pictures = []
    if len(parts) > 1:
        curves = {
            name: (n, series(parts, name, "tokens_per_second"), series(parts, name, "ms_median"),
                   sizes)
            for name, n in shown.items()
        }  # fmt: skip
        caption = "Latency and throughput; the numbers at the points are batch sizes."
        labels = ("tokens per second", "median latency per batch, ms")
        panel = Panel(curves, *labels, more={"yscale": "log"})  # Xia et al. 2023, Figure 5
        pictures.append(picture(run, "latency_throughput", caption, panel))
        xs, label = list(map(str, sizes)), "speed over stock beam 5 at the same batch size"
        curves = {m: (n, xs, series(parts, m, "speed_beam5"), ()) for m, n in shown.items()}
        caption = "Speed by batch size, over stock beam 5 at the same batch size."
        panel = Panel(curves, "batch size", label)  # Ge et al. 2022, Figures 6 and 7
        pictures.append(picture(run, "speed_by_batch", caption, panel))
    for part in (part for part in parts if part["batch_size"] == 1):
        base, label = part["ms_by_batch"]["fairseq beam 5"], "speed-up over stock beam 5"
        curves = {
            name: (n, (), [a / b for a, b in zip(base, part["ms_by_batch"][name])], ())
            for name, n in shown.items() if name != "fairseq beam 5"
        }  # fmt: skip
        caption = "Speed-up of single sentences over stock beam 5, batch size 1: its distribution."
        panel = Panel(curves, "", label, "violins")  # Ge et al. 2022, Figure 8; Xia et al., 6
        pictures.append(picture(run, "speed_up_distribution", caption, panel))
    for number, base in enumerate(dict.fromkeys(r["base"] for r in rows if r["sweep"]), 1):
        mine = [row for row in rows if row["sweep"] and row["base"] == base]
        if len(mine) > 2 and all(row.get("bleu") is not None for row in mine):
            pictures.append(trade_off(run, mine, number, base))
    return pictures


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for each in draw(json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))):
        (folder / f"{each.name}.png").write_bytes(each.png)
