"""Decoding, scores and tables of the benchmarks."""

import itertools
import pathlib
import re
import shlex
from collections.abc import Iterator
from typing import Any

from benchmark import Benchmark, family_of
from launch import Devices
from models import WORDS_AND_SIZES, decode
from recipe import REPO, StepError, part
from step import Step

from fairseq_specdec.io.flag_values import flag_of

STOCK_BEAMS = ("5", "1")  # fairseq's own beam search, as specdec-bench runs it
GREEDY = "greedy"  # this engine without drafts, which every set is compared with


class Group:
    """A set of systems: one verifier, one split, systems in turns. ``verifier``: its
    checkpoint. ``systems``: name, flags and checkpoints of each; the first is this engine's greedy
    decoding."""

    def __init__(self, name: str, split: str, verifier: pathlib.Path) -> None:
        self.name, self.split, self.verifier = name, split, verifier
        self.systems: list[tuple[str, list[str], list[pathlib.Path]]] = [
            (GREEDY, ["--strategy", "greedy"], [verifier])
        ]

    @property
    def used(self) -> list[pathlib.Path]:
        """The checkpoints of all systems, each once."""
        return list(dict.fromkeys(path for _, _, paths in self.systems for path in paths))

    def text(self, out: pathlib.Path) -> str:
        """The systems in a form that shows whether they changed."""
        systems = "; ".join(f"{name}: {shlex.join(words)}" for name, words, _ in self.systems)
        return f"{self.name}: {systems}".replace(str(out), ".")


def collect(step: Step, bench: Benchmark) -> dict[str, Group]:
    """The sets of this direction, with the systems whose models are there."""
    groups: dict[str, Group] = {}
    lacking: dict[str, None] = {}
    for row in step.recipe.systems():
        if row.direction not in ("*", step["DIRECTION"]):
            continue
        names = [row.verifier, *row.needs]
        paths = {name: bench.model(name) for name in names}
        made = [name for name, path in paths.items() if path.exists()]
        missing = [name for name in names if not (bench.chosen(name) if step.dry else name in made)]
        lacking.update(dict.fromkeys(missing))
        if missing:
            continue
        words = [word.format(**paths) for word in shlex.split(row.flags)]
        group = groups.setdefault(row.set, Group(row.set, row.split, paths[row.verifier]))
        if row.name != GREEDY:
            group.systems.append((row.name, words, list(paths.values())))
    if lacking:
        names = " ".join(lacking)
        step.log(f"systems left out, without these models (MODELS): {names}")
    return groups


def note_systems(
    step: Step, path: pathlib.Path, record: pathlib.Path, text: str, name: str
) -> None:
    """Write down what is measured; where that is not what it was, what was measured is void."""
    if step.dry:
        return
    if record.exists() and (not path.exists() or path.read_text(encoding="utf-8") != text):
        step.log(f"other systems or settings than before: measuring {name} again")
        record.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def decode_set(
    step: Step, bench: Benchmark, devices: Devices, group: Group
) -> Iterator[pathlib.Path]:
    """Outputs of a set, each decoded unless that is done: fairseq's own beam search comes first."""
    folder, shared = bench.out / "decoded", {"corpus": bench.bin, "pair": (bench.src, bench.tgt)}
    systems = [
        (f"fairseq_beam_{beam}", ["--task", "translation", "--beam", beam], [group.verifier])
        for beam in STOCK_BEAMS
    ]
    for name, own, used in group.systems:
        systems += [(label, words, used) for label, words in each_value(name, own)]
    for system, words, used in systems:
        name = f"{group.name}.{system.replace(' ', '_')}"
        record, out = folder / f"{name}.done", folder / f"{name}.out"
        text = f"{group.verifier} {shlex.join(words)}".replace(str(bench.out), ".")
        done = not step.lacks(record) and record.read_text(encoding="utf-8") == text
        if not done or any(path.stat().st_mtime >= record.stat().st_mtime for path in used):
            if not step.lacks(record):
                record.unlink()
            decode(
                step, name, group.verifier, *words, *WORDS_AND_SIZES, folder=folder,
                subset=group.split, device=devices.half, **shared,
            )  # fmt: skip
            if not step.dry:
                record.write_text(text, encoding="utf-8")
        yield out


def decode_step(step: Step) -> None:
    """An action: decode the sets that the recipe decodes, and score the text: scores.json."""
    step.need("fairseq-generate")
    family, bench = family_of(step), Benchmark(step)
    names, folder = step.settings.words("decode_sets"), bench.out / "decoded"
    groups = collect(step, bench)
    chosen = [groups[name] for name in names if name in groups]
    record, systems = folder / "provenance.json", folder / "systems"
    text = "\n".join([step["COMET"], *(group.text(bench.out) for group in chosen)])
    note_systems(step, systems, record, text, " ".join(names))
    used = [path for group in chosen for path in group.used]
    inputs = [*dict.fromkeys(used), systems, bench.test_file("test")]
    if step.finished(record, inputs):
        return
    devices = Devices(step)
    outputs = [path for group in chosen for path in decode_set(step, bench, devices, group)]
    if not outputs:
        raise StepError("nothing to decode: train a verifier first (MODELS)")
    family.score(outputs, folder / "scores.json")
    step.record(record, inputs, folder)


def sentences(step: Step, group: Group) -> int:
    """How many sentences of a set are measured; 0 for all."""
    return step.settings.number("VALID_SENTENCES" if group.split == "valid" else "SENTENCES")


def own_words(words: list[str]) -> tuple[list[str], list[str]]:
    """A system's own flags, and what follows ``--sweep`` among them."""
    places = {number for number, word in enumerate(words) if word == "--sweep"}
    own = [word for number, word in enumerate(words) if not {number, number - 1} & places]
    return own, [words[number + 1] for number in sorted(places)]


def each_value(name: str, words: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Name and flags of each row that specdec-bench makes of a system."""
    own, sweeps = own_words(words)
    listed = [sweep.split("=") for sweep in sweeps]
    for values in itertools.product(*(values.split(",") for _, values in listed)):
        chosen = [(flag, value) for (flag, _), value in zip(listed, values)]
        more = [word for flag, value in chosen for word in (flag_of(flag), value)]
        yield " ".join([name, *map("=".join, chosen)]), [*own, *more]


def system_words(name: str, words: list[str]) -> list[str]:
    """The flags of specdec-bench that make a system; ``--sweep FLAG=V,V`` among its own flags makes
    one of every value."""
    own, sweeps = own_words(words)
    flags = [word for sweep in sweeps for word in ("--sweep", f"{name}: {sweep}")]
    return ["--system", f"{name}: {shlex.join(own)}", *flags]


def bench_set(step: Step, bench: Benchmark, devices: Devices, group: Group) -> None:
    """Measure a set: ``bench/SET.{json,md}``, and with PLOTS its pictures in ``bench/SET``.

    One called ``NAME_cpuN`` is measured on N threads of the CPU, whatever else is available.
    """
    name, settings, base = group.name, step.settings, bench.out / "bench" / group.name
    on_cpu = re.search(r"_cpu(\d+)$", name)
    words: list[Any] = ["--cpu"] if on_cpu else devices.half
    if sentences(step, group):
        words = [*words, "--limit", sentences(step, group)]
    more = ["--plots", base] if step["PLOTS"] else []
    more += ["--memory"] if name in settings.words("memory_sets") else []
    words += ["--batch-size", step["memory_sizes"] if "--memory" in more else "1"]
    words += ["--threads", step.environment["OMP_NUM_THREADS"]]  # as Devices chose
    for lengths in ("LENGTH_FLAGS", "bench_flags", "BENCH_FLAGS"):
        words += settings.words(lengths)
    words += ["--threads", on_cpu.group(1)] if on_cpu else []
    for system, own, _ in group.systems:
        words += system_words(system, own)
    step.log(name)
    program = [step.python, REPO / "benchmarks" / "peers.py"] if more else ["specdec-bench"]
    step.run(
        *program, bench.bin, "--path", group.verifier, "-s", bench.src, "-t", bench.tgt,
        "--gen-subset", group.split, *WORDS_AND_SIZES, *words, *more, "--json", f"{base}.json",
        "--markdown", f"{base}.md", log=base.with_name(f"{name}.log"), mode="w",
    )  # fmt: skip


def measure_set(step: Step, bench: Benchmark, devices: Devices, group: Group) -> pathlib.Path:
    """Measure a set unless that is done; its figures."""
    step.commands = []
    base = bench.out / "bench" / group.name
    record, systems, figures = (
        base.with_name(f"{group.name}.{end}") for end in ("provenance.json", "systems", "json")
    )
    text = f"sentences: {sentences(step, group)}; {group.text(bench.out)}"
    note_systems(step, systems, record, text, group.name)
    inputs = [*group.used, systems, bench.test_file(group.split)]
    if not step.finished(record, inputs):
        bench_set(step, bench, devices, group)
        step.record(record, inputs, figures)
    return figures


def table_step(step: Step) -> None:
    """An action: measure the sets of systems (or TABLE_SETS), and print the papers' tables with our
    figures beside theirs: ``tables.md``."""
    step.need("specdec-bench")
    bench = Benchmark(step)
    step.make(bench.out / "bench")
    devices, groups = Devices(step), collect(step, bench)
    names = step.settings.words("TABLE_SETS") or list(groups)
    shown = [measure_set(step, bench, devices, groups[n]) for n in groups if n in names]
    if not shown and not step.dry:
        asked = step["TABLE_SETS"] or "any set of systems"
        raise StepError(f"nothing to measure for {asked}: train its models first (MODELS)")
    step.commands = []
    scores = bench.out / "decoded" / "scores.json"
    shown += [scores] if scores.exists() else []
    note = f"corpus: {step['note']}"
    if bench.smoke:
        note = "PROFILE=smoke: tiny models, a small sample; figures mean nothing"
    paper, written = step.path("PAPER"), bench.out / "tables.md"
    sections = step.settings.words("tables")
    where = (bench.out / "bench", scores, step["DIRECTION"])
    step.call("paper_table.write", paper, sections, *where, note, written)
    step.call("measure.show", written)
    inputs = [*(part(paper, section) for section in sections), *shown]
    step.record(bench.out / "tables.provenance.json", inputs, written)


def show(*paths: pathlib.Path) -> None:
    print("".join(path.read_text(encoding="utf-8") for path in paths), end="", flush=True)
