"""Pictures of the results of specdec-bench, as the papers draw them; needs matplotlib.

python benchmarks/plots.py RESULTS.json FOLDER
"""

import json
import pathlib
import sys

from fairseq_specdec.bench.tables import title

MOST = 15  # systems that one picture shows
SYMBOLS = {
    "block_size": "k", "top_beta": "β", "tau": "τ", "alpha_fb": "α_FB", "alpha_rb": "α_RB",
}  # fmt: skip


def plain(text):
    """Text that matplotlib does not read as mathematics."""
    return str(text).replace("$", r"\$")


class Pictures:
    """Pictures of a run (what ``--json`` writes) in a folder.

    Curves are {name: (number, xs, ys, texts at the points)}; the number gives a system one colour
    and stroke in all pictures.
    """

    def __init__(self, run, folder):
        self.run, self.folder = run, pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def save(self, name, caption, curves, draw, **axes_settings):
        """One picture with a title, what was measured on what, and a legend beside many curves."""
        from matplotlib.figure import Figure  # no pyplot: nothing global is set

        figure = Figure(figsize=(7.0, 4.2), layout="constrained")
        figure.suptitle(plain(caption), fontsize=11)
        axes = figure.subplots()
        draw(axes, {plain(name): curve for name, curve in curves.items()})
        axes.set(**axes_settings)
        labels = axes.get_legend_handles_labels()[1]
        if labels:
            beside = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "borderaxespad": 0}
            axes.legend(fontsize=6, **(beside if len(labels) > 6 else {}))
        facts, what = self.run["provenance"], title(self.run).split(": ", 1)[1]
        measured = f"{what}; {facts['machine']['device']}, threads: {facts['threads']}"
        axes.set_title(plain(measured), fontsize=7, color="0.4")
        figure.savefig(self.folder / f"{name}.png", dpi=110)

    def trade_off(self, rows, number, base):
        """BLEU by time over the values of the first swept flag (Kim et al. 2023, Figure 10)."""
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
        caption = f"{base}: BLEU against time; at the points {named}"
        labels = {"xlabel": "ms per sentence", "ylabel": "BLEU"}
        self.save(f"trade_off_{number}", caption, curves, lines, **labels)


def lines(axes, curves):
    for name, (number, xs, ys, texts) in curves.items():
        stroke = ("-", "--", ":", "-.")[number // 10 % 4]  # forty differ
        axes.plot(xs, ys, f"o{stroke}", color=f"C{number % 10}", markersize=4, label=name)
        for text, *place in zip(map(plain, texts), xs, ys):
            axes.annotate(text, place, (4, 4), fontsize=6, textcoords="offset points")


def violins(axes, curves):
    places = range(len(curves))
    drawn = axes.violinplot([ys for _, _, ys, _ in curves.values()], places, showmedians=True)
    for (number, *_), body in zip(curves.values(), drawn["bodies"]):
        body.set_facecolor(f"C{number % 10}")
    axes.axhline(1, color="0.7", linewidth=0.8, zorder=0)
    axes.set_xticks(places, labels=list(curves), fontsize=7, rotation=30)


def draw(run, folder):
    """Every picture that results give."""
    made = Pictures(run, folder)
    parts = sorted(run["runs"], key=lambda part: part["batch_size"])
    rows, sizes = run["runs"][0]["rows"], [part["batch_size"] for part in parts]
    few = len(rows) <= MOST  # else swept systems have pictures of their own
    shown = {row["system"]: n for n, row in enumerate(rows) if few or not row["sweep"]}

    def series(system, key):
        return [row[key] for part in parts for row in part["rows"] if row["system"] == system]

    if len(parts) > 1:
        curves = {
            name: (n, series(name, "tokens_per_second"), series(name, "ms_median"), sizes)
            for name, n in shown.items()
        }
        made.save(  # Xia et al. 2023, Figure 5
            "latency_throughput", "Latency and throughput; at the points the batch size", curves,
            lines, xlabel="tokens per second", ylabel="median latency per batch, ms", yscale="log",
        )  # fmt: skip
        curves = {
            m: (n, [*map(str, sizes)], series(m, "speed_beam5"), ()) for m, n in shown.items()
        }
        made.save(  # Ge et al. 2022, Figures 6 and 7
            "speed_by_batch", "Speed by batch size", curves, lines, xlabel="batch size",
            ylabel="speed over stock beam 5 at the same batch size",
        )  # fmt: skip
    for part in (part for part in parts if part["batch_size"] == 1):
        base = part["ms_by_batch"]["fairseq beam 5"]
        curves = {
            name: (n, (), [a / b for a, b in zip(base, part["ms_by_batch"][name])], ())
            for name, n in shown.items() if name != "fairseq beam 5"
        }  # fmt: skip
        made.save(  # Ge et al. 2022, Figure 8; Xia et al., 6
            "speed_up_distribution", "Speed-up of single sentences", curves, violins,
            ylabel="speed-up over stock beam 5",
        )  # fmt: skip
    for number, base in enumerate(dict.fromkeys(r["base"] for r in rows if r["sweep"]), 1):
        mine = [row for row in rows if row["sweep"] and row["base"] == base]
        if len(mine) > 2 and all(row.get("bleu") is not None for row in mine):
            made.trade_off(mine, number, base)


if __name__ == "__main__":
    draw(json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")), sys.argv[2])
