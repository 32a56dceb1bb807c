"""The generated tables of RESULTS.md, README and docs, from cpu.json and gpu.json.

    python benchmarks/result_tables.py                           # write the tables anew
    python benchmarks/result_tables.py --check                   # exit 1 if a table is stale
    python benchmarks/result_tables.py --strategies FILE         # results of scripts/run comparison
    python benchmarks/result_tables.py --gpu NAME gpu-figures    # the folder that make gpu wrote

``processors.py`` adds a processor. A table's place is below its comment ``<!-- table: NAME -->``.
Standard library only.
"""

import argparse
import collections
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
CPU, GPU = HERE / "cpu.json", HERE / "gpu.json"
PAGES = [HERE / "RESULTS.md", HERE.parent / "README.md", *sorted(HERE.parent.glob("docs/*.md"))]
# Names in the summaries of figures that specdec-bench writes.
FIGURES = {
    "ms": "ms_mean", "cpu": "cpu_ms_mean", "identical": "identical_percent", "bleu": "bleu",
    "tok": "tok", "tok_without_eos": "tok_without_eos", "iter": "iter",
}  # fmt: skip
SECTIONS = {
    "encoder": ("encoder",), "drafter": ("drafter_encoder", "drafter"),
    "verifier": ("verifier",), "rest": ("rest",),
}  # fmt: skip
RUNS_OF_GPU = ("ende_fp32", "ende_fp16", "edit_fp32", "edit_fp16", "replay_base", "replay_12+2")
PAIRS = {"ende": "translation", "edit": "correction"}
REPLAYED = {"replay_base": "6+6 layers", "replay_12+2": "12+2 layers"}
PAPERS = ("papers' size", "papers' size, int8", "base shape, int8, 32 at a time")
OURS = ("greedy", "gad", "iad")
REPLAYS = ("greedy (replay)", "planned (replay)")
SHOWN = {"zen5": "Zen 5", "zen5-avx2": "AVX2", "emerald-rapids": "Emerald Rapids"}
COMPARED = ("CTranslate2 float32", "CTranslate2 int8", "this project, fp32", "this project, int8")


def read(path):
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def dumped(value, indent=0):
    """JSON with one line for each innermost dict or list."""
    if not isinstance(value, dict) or not any(isinstance(v, dict) for v in value.values()):
        return json.dumps(value, ensure_ascii=False)
    pad = " " * (indent + 1)
    lines = [f"{pad}{json.dumps(k)}: {dumped(v, indent + 1)}" for k, v in value.items()]
    return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"


def save(path, summary):
    path.write_text(dumped(summary) + "\n", "utf-8")


def record(results, *figures):
    """What a summary keeps of a run.

    Args:
        results: what ``--json`` of specdec-bench wrote.
        figures: keys of ``FIGURES``, and "sections" for the time of each part.

    Returns:
        device, commit, date, versions, and {batch size: {system: {figure: value}}}; times in ms.
    """
    batches = {}
    for run in results["runs"]:
        rows = batches[str(run["batch_size"])] = {}
        for row in run["rows"]:
            values = {f: row.get(FIGURES[f]) for f in figures if f != "sections"}
            if "sections" in figures and row["ms_by_section"]:
                for name, parts in SECTIONS.items():
                    values[name] = sum(row["ms_by_section"][part] for part in parts)
            rows[row["system"]] = {k: round(v, 6) for k, v in values.items() if v is not None}
    facts = results["provenance"]
    return {
        "device": facts["machine"]["device"],
        "commit": facts["commit"],
        "date": facts["time"][:10],
        "versions": ", ".join(f"{name} {v}" for name, v in sorted(facts["versions"].items())),
        "batches": batches,
    }


def number(value, form="{:.2f}"):
    return "-" if value is None else form.format(value)


def ratio(one, other):
    return number(one / other if one and other else None)


def table(titles, rows, texts=1):
    """Markdown; the first columns are ``texts``, the others numbers."""
    lines = [titles, ["---"] * texts + ["--:"] * (len(titles) - texts), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def systems_of(records, size):
    """Every system of some records at a batch size, in their order."""
    return list(dict.fromkeys(s for each in records for s in each["batches"].get(size, {})))


def milliseconds(columns, *sizes):
    """A row per system, a column per processor, the times of the batch sizes in each cell.

    Args:
        columns: {processor: {batch size: {system: figures}}}.
    """
    rows = []
    for system in dict.fromkeys(s for each in columns.values() for s in each[sizes[0]]):
        cells = []
        for each in columns.values():
            times = [number(each[size].get(system, {}).get("ms")) for size in sizes]
            cells.append(" / ".join(times) if set(times) != {"-"} else "-")
        rows.append([system, *cells])
    return table(["system", *columns], rows)


def of_run(processors, run):
    """{processor: {batch size: {system: figures}}} of the processors that have the run."""
    return {name: runs[run]["batches"] for name, runs in processors.items() if run in runs}


def papers(processors):
    """The papers' size, as ``of_run``: replayed rows by the verifier's precision, alone and 32 at a
    time."""
    alone, int8, many = (of_run(processors, run) for run in PAPERS)
    columns = {}
    for name, batches in alone.items():
        columns[name] = {"1": dict(batches["1"]), "32": {}}
        for size, batch in (("1", int8.get(name, {})), ("32", many.get(name, {}))):
            for system, figures in batch.get(size, {}).items():
                if "(replay)" in system:
                    columns[name][size][f"{system}, int8"] = figures
                elif size == "32":
                    columns[name][size][system] = figures
    return columns


def fastest(batch, systems, form):
    """The least time of some systems and, if there are several, the first with it: 5.1 (gad)."""
    times = {name: form.format(batch[name]["ms"]) for name in systems if name in batch}
    best = min(times, key=lambda name: float(times[name]))
    strategy = re.split("[ ,]", best)[0].replace("planned", "gad")
    return times[best] if len(systems) == 1 else f"{times[best]} ({strategy})"


def comparison(processors):
    """CTranslate2 and the fastest lossless strategy, on the processors of README."""
    ende, edit, nllb = (of_run(processors, r) for r in (*PAIRS.values(), "NLLB-600M's shape"))
    replayed, both, rows = papers(processors), [*SHOWN][:2], []
    for what, batches, size, beam, systems, names, form in (
        ("translation, one sentence at a time", ende, "1", 1, OURS, SHOWN, "{:.1f}"),
        ("the same with beam 5", ende, "1", 5, ("beam 5",), both, "{:.1f}"),
        ("the same, 32 at a time", ende, "32", 1, OURS, both, "{:.1f}"),
        ("correction, one at a time", edit, "1", 1, OURS, both, "{:.1f}"),
        ("papers' size, replayed drafts", replayed, "1", 1, REPLAYS, both, "{:.0f}"),
        ("NLLB-600M's shape, one at a time", nllb, "1", 1, OURS[:1], nllb, "{:.0f}"),
    ):
        for name in names:
            batch = batches[name][size]
            int8 = [f"{system}, int8" for system in systems]
            peers = [form.format(batch[f"{peer} beam {beam}"]["ms"]) for peer in COMPARED[:2]]
            ours = [fastest(batch, rows, form) for rows in (systems, int8)]
            rows.append([what, SHOWN.get(name, "Zen 4"), *peers, *ours])
            what = ""
    return table(["", "processor", *COMPARED], rows, texts=2)


def gains(batches):
    """CPU time of greedy divided by that of each drafting strategy in the same precision.

    Args:
        batches: {batch size: {system: figures}}.

    Returns:
        {system: {batch size: ratio}}.
    """
    found = collections.defaultdict(dict)
    for size, rows in batches.items():
        for system, figures in rows.items():
            strategy, *precision = system.split(", ")
            if strategy in ("gad", "gad++", "iad"):
                base = rows[", ".join(["greedy", *precision])]
                found[system][size] = base["cpu"] / figures["cpu"]
    return dict(found)


def drafting(processors):
    """What drafting gains: a row per pair and system, a column per processor."""
    columns = collections.defaultdict(dict)
    for pair in PAIRS.values():
        for name, batches in of_run(processors, f"drafting, {pair}").items():
            for system, ratios in gains(batches).items():
                columns[name][f"{pair}, {system}"] = " / ".join(map(number, ratios.values()))
    rows = dict.fromkeys(row for each in columns.values() for row in each)
    cells = [[row, *(each.get(row, "-") for each in columns.values())] for row in rows]
    return table(["pair, system", *columns], cells)


def sources(measured):
    """Where figures come from: a row per device, date and commit.

    Args:
        measured: {what was measured: {run: record}}.
    """
    groups = collections.defaultdict(list)
    for name, runs in measured.items():
        for run, each in runs.items():
            torch = re.search("torch ([^,]*)", each["versions"])[1]
            commit = re.sub("(.{8})[0-9a-f]*", r"\1", each["commit"], count=1)
            groups[name, each["device"], each["date"], commit, torch].append(run)
    names = [name for name, *_ in groups]
    rows = []
    for (name, *facts), runs in groups.items():
        what = f"{name}: {'; '.join(runs)}" if names.count(name) > 1 else name
        rows.append([what, *facts])
    return table(
        ["measured", "device", "date", "commit (dirty: with uncommitted changes)", "torch"], rows
    )


def strategies(run):
    rows, fastest = [], run["batches"]["1"]
    five, one, greedy = (fastest[n]["ms"] for n in ("fairseq beam 5", "fairseq beam 1", "greedy"))
    for system, each in fastest.items():
        stock = system.startswith("fairseq")
        rows.append([
            system, number(each["bleu"]), number(each["identical"], "{:.1f}%"),
            number(each["tok"]), number(each["tok_without_eos"]), number(each["iter"]),
            number(each["ms"]), ratio(five, each["ms"]), ratio(one, each["ms"]),
            "-" if stock else ratio(greedy, each["ms"]), *(number(each[part]) for part in SECTIONS),
        ])  # fmt: skip
    titles = ["system", "BLEU", "identical", "Tok.", "without </s>", "Iter.", "ms", "vs beam 5"]
    return table([*titles, "vs beam 1", "vs greedy", *SECTIONS], rows)


def card(runs, pair):
    """A demo pair on a GPU: a row per system, times by precision and batch size."""
    runs = [runs[name] for name in (f"{pair}_fp32", f"{pair}_fp16") if name in runs]
    rows = []
    for system in systems_of(runs, "1"):
        each = [{size: rows[system] for size, rows in run["batches"].items()} for run in runs]
        least = [number(min(r["identical"] for r in sizes.values()), "{:.1f}%") for sizes in each]
        first = each[0]["1"]
        times = [number(sizes[size]["ms"]) for sizes in each for size in sizes]
        rows.append([system, number(first["bleu"]), *least, number(first["tok"]), *times])
    precisions = ("fp32", "fp16")[: len(runs)]
    titles = [PAIRS[pair], "BLEU", *(f"identical, {p}" for p in precisions), "Tok."]
    sizes = [(p, size) for p, run in zip(precisions, runs) for size in run["batches"]]
    return table([*titles, *(f"{p}, batch {size}" for p, size in sizes)], rows)


def papers_on_card(runs):
    columns = {REPLAYED[name]: run for name, run in runs.items() if name in REPLAYED}
    rows = []
    for system in systems_of(columns.values(), "1"):
        cells = []
        for run in columns.values():
            batch = run["batches"]["1"]
            ms = batch[system]["ms"]
            cells += [number(batch[system]["tok"]), number(ms)]
            cells.append(ratio(batch["fairseq beam 5"]["ms"], ms))
        rows.append([system, *cells])
    titles = [f"{name}: {what}" for name in columns for what in ("Tok.", "ms", "vs beam 5")]
    return table(["system", *titles], rows)


def iterations(rows):
    names = ("greedy", "greedy_graphs", "gad", "gad_graphs")
    lines = [
        [r["precision"], str(r["rows"]), *(number(r.get(n)) for n in names),
         number(r.get("peak_bytes", 0) / 1e6, "{:.0f}")]
        for r in rows.values()
    ]  # fmt: skip
    titles = ["ms per iteration", "rows", "greedy", "with graphs", "gad", "with graphs", "peak MB"]
    return table(titles, lines)


def tables():
    """Every generated table by its name in the page."""
    cpu, gpu = read(CPU), read(GPU)
    processors = cpu["processors"]
    made = {
        "comparison": comparison(processors),
        "translation": milliseconds(of_run(processors, "translation"), "1", "32"),
        "correction": milliseconds(of_run(processors, "correction"), "1"),
        "papers": milliseconds(papers(processors), "1", "32"),
        "drafting": drafting(processors),
        "strategies": strategies(cpu["strategies"]),
    }
    measured = {**processors, "strategies": {"": cpu["strategies"]}}
    for name, runs in gpu.items():
        measured[name] = {run: each for run, each in runs.items() if run != "iterations"}
        made[f"{name}, translation"] = card(runs, "ende")
        made[f"{name}, correction"] = card(runs, "edit")
        made[f"{name}, papers"] = papers_on_card(runs)
        made[f"{name}, iterations"] = iterations(runs["iterations"])
    made["sources"] = sources(measured)
    return made


def pages():
    """{path: its text with every table as its JSON has it}; ends the program where one has no
    place."""
    made, found = tables(), set()

    def filled(match):
        found.add(match[2])
        return f"{match[1]}{made[match[2]]}\n"

    place = re.compile(r"(<!-- table: (.*) -->\n)(?:[|-].*\n)*")
    texts = {path: place.sub(filled, path.read_text("utf-8")) for path in PAGES}
    for name in set(made) - found:
        sys.exit(f"no page has a line <!-- table: {name} -->; write one")
    return texts


def write():
    for path, text in pages().items():
        path.write_text(text, "utf-8")


def add_gpu(name, folder):
    """Keep the results of ``make gpu`` as those of a card."""
    folder, summary = pathlib.Path(folder), read(GPU)
    runs = summary[name] = {}
    for run in RUNS_OF_GPU:
        if (folder / f"{run}.json").exists():
            runs[run] = record(read(folder / f"{run}.json"), "ms", "identical", "bleu", "tok")
    runs["iterations"] = read(folder / "iterations.json")
    save(GPU, summary)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if it would")
    parser.add_argument("--strategies", metavar="FILE", help="results of scripts/run comparison")
    parser.add_argument("--gpu", nargs=2, metavar=("NAME", "FOLDER"), help="results of make gpu")
    given = parser.parse_args(arguments)
    if given.strategies:
        run = record(read(pathlib.Path(given.strategies)), *FIGURES, "sections")
        save(CPU, {**read(CPU), "strategies": run})
    if given.gpu:
        add_gpu(*given.gpu)
    if given.check:
        stale = [path.name for path, text in pages().items() if text != path.read_text("utf-8")]
        if stale:
            sys.exit(f"{', '.join(stale)}: a table differs from its JSON; run {parser.prog}")
    else:
        write()


if __name__ == "__main__":
    main(sys.argv[1:])
