"""The papers' tables with the figures measured here beside the published ones.

A line of paper.tsv is a row of a table: table, direction, row, set, system, figures. ``set`` and
``system`` name what was measured (``SET.json`` of specdec-bench, its row); ``-`` is a row that
cannot be run here. Figures are ``key=published`` pairs, ``key=`` where the paper gives none. Keys
are those of specdec-bench's JSON; ``key@N`` is the one at batch size N, ``ms.SECTION`` a part of
the time, ``ms_iter.SECTION`` the same for each iteration, ``share.SECTION`` its share in percent,
``text.KEY`` one of scores.json and ``energy.KEY`` one of energy.json. What was not run reads "not
run". A line with ``[a|b]`` stands for several, as in systems.tsv.

Every table with a system that drafts also gets what no paper has: a row of this engine without
drafts, and two columns, the speed over stock fairseq at beam 5 and over that row. A published ratio
mixes the engine and the algorithm where the two engines differ; the second column is the
algorithm's alone.

A line ``note, table, key, text`` notes where our figure and the published one are not of one kind:
the column gets a letter, and the text stands under the table. Table ``*`` is every one with the
key, and ``key`` without ``@N`` is that of every batch size.
"""

import json
import pathlib
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

from recipe import swept

from fairseq_specdec.bench import tables as bench_tables
from fairseq_specdec.bench.tables import section_title, table
from fairseq_specdec.io.atomic import write_text

NOTHING = "-"
NOTE, EVERY = "note", "*"
NOT_RUN = "not run"
GREEDY, STOCK = "greedy", "fairseq beam"  # systems of specdec-bench that draft nothing
GREEDY_ROW = "this engine, greedy (no drafts; not the paper's)"
RATIOS = ("speed_beam5", "speed_greedy")
PARTS = {"ms": "ms, {}", "ms_iter": "ms, {}, an iteration", "share": "% of time, {}"}
TITLES = {
    "bleu": "BLEU",
    "tok": "Tok.",
    "tok_without_eos": "Tok. without </s>",
    "iter": "Iter.",
    "speed_beam5": "speed vs beam 5",
    "speed_beam1": "speed vs beam 1",
    "speed_greedy": "speed vs this engine's greedy",
    "fallback_percent": "fallback %",
    "rollback_percent": "rollback %",
    "memory_mb": "MB",
    "ms_mean": "ms",
    "energy.watts": "W",
    "energy.hours": "GPU hours",
    "energy.wh": "Wh, PUE 1.1",
    "text.sacrebleu": "sacreBLEU",
    "bleu_compound": "BLEU, compounds split",
    "text.bleu_compound": "BLEU, compounds split",
    "text.bleu_to_greedy": "BLEU to greedy output",
    "text.comet": "COMET",
    "text.m2_precision": "M2 P",
    "text.m2_recall": "M2 R",
    "text.m2_f": "M2 F0.5",
    "text.errant_f": "ERRANT F0.5",
    "text.rouge1": "R-1",
    "text.rouge2": "R-2",
    "text.rougeLsum": "R-L",
    "text.sari": "SARI",
    "text.bleu": "BLEU",
}


class Row(NamedTuple):
    """A line of paper.tsv; ``figures`` maps a key to what was published (``""``: nothing)."""

    table: str
    direction: str
    name: str
    set: str
    system: str
    figures: dict[str, str]


class Note(NamedTuple):
    """How our figure of a key differs from what a table (or ``*``) publishes."""

    table: str
    key: str
    text: str


def read(path: pathlib.Path) -> tuple[list[Row], list[Note]]:
    """The rows and the notes of paper.tsv."""
    rows: list[Row] = []
    notes: list[tuple[int, list[str]]] = []
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    for number, line in ((number, each) for number, text in lines for each in swept(text)):
        fields = line.split("\t")
        if not line.strip() or line.startswith("#"):
            continue
        if fields[0] == NOTE:
            notes.append((number, fields))
            continue
        if len(fields) != 6 or not all("=" in word for word in fields[5].split()):
            raise ValueError(f"{path}:{number}: expected 6 fields, the last KEY=FIGURE ...")
        figures = dict(word.split("=", 1) for word in fields[5].split())
        rows.append(Row(*fields[:5], figures=figures))
    columns = {(row.table, base(key)) for row in rows for key in row.figures}
    columns |= {(EVERY, key) for _, key in columns}
    for number, fields in notes:
        if len(fields) != 4 or tuple(fields[1:3]) not in columns:
            raise ValueError(f"{path}:{number}: expected note, a table or *, a key of it, text")
    return rows, [Note(*fields[1:]) for _, fields in notes]


def part_of(line: dict[str, Any], kind: str, section: str) -> float | None:
    """What a section takes of a sentence's time. ``line``: a row of specdec-bench's JSON. ``kind``:
    ``ms``; ``ms_iter``, of each iteration; ``share``, in percent."""
    sections: dict[str, float] = line["ms_by_section"] or {}
    if section not in sections:
        return None
    whole = {"ms": 1.0, "ms_iter": line["iter"], "share": sum(sections.values()) / 100}[kind]
    return sections[section] / whole if whole else None


class Measured:
    """What lies in a folder: ``SET.json`` of specdec-bench, and scores.json. ``sources``: of each
    set that was used, one line on how it was measured."""

    def __init__(self, folder: pathlib.Path, scores: pathlib.Path | None) -> None:
        self._folder = folder
        self._runs: dict[str, Any] = {}
        self._scores: dict[str, Any] = {}
        for path in filter(None, (scores, folder.parent / "energy.json")):
            made = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            for name, figures in made.items():
                self._scores.setdefault(name, {}).update(figures)
        self.sources: dict[str, str] = {}

    def _run(self, name: str) -> dict[str, Any] | None:
        if name not in self._runs:
            path = self._folder / f"{name}.json"
            exists = name != NOTHING and path.exists()
            self._runs[name] = json.loads(path.read_text(encoding="utf-8")) if exists else None
        run: dict[str, Any] | None = self._runs[name]
        return run

    def figure(self, row: Row, key: str) -> float | None:
        """The figure measured, or None."""
        kind, _, name = key.partition(".")
        if kind in ("text", "energy"):
            return self._scores.get(f"{row.set}.{row.system.replace(' ', '_')}", {}).get(name)
        run = self._run(row.set)
        if run is None:
            return None
        key, _, size = key.partition("@")
        for measured in run["runs"]:
            if measured["batch_size"] != int(size or 1):
                continue
            for line in measured["rows"]:
                if line["system"] == row.system:
                    self.sources[row.set] = bench_tables.line(run["provenance"])
                    kind, _, section = key.partition(".")
                    if kind in PARTS:
                        return part_of(line, kind, section)
                    value: float | None = line.get(key)
                    return value
        return None


def base(key: str) -> str:
    """A key without its batch size."""
    return key.partition("@")[0]


def title(key: str) -> str:
    name, _, size = key.partition("@")
    kind, _, section = name.partition(".")
    if kind in PARTS:
        return PARTS[kind].format(section_title(section))
    return TITLES.get(name, name) + (f", batch {size}" if size else "")


def tables(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Rows by table and direction, in their order."""
    by_table: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_table.setdefault((row.table, row.direction), []).append(row)
    return by_table


def drafts(row: Row) -> bool:
    """Whether a system was measured that is neither stock nor this engine's greedy decoding."""
    return row.system not in (NOTHING, GREEDY) and not row.system.startswith(STOCK)


def with_greedy(rows: Sequence[Row]) -> list[Row]:
    """The rows of a table, with this engine's greedy decoding before the first system of each set
    that drafts."""
    keys = dict.fromkeys((key for row in rows for key in row.figures), "")
    seen = {row.set for row in rows if row.system == GREEDY}
    sets = {row.set for row in rows if drafts(row)}
    wider: list[Row] = []
    for row in rows:
        if drafts(row) and row.set not in seen:
            seen.add(row.set)
            name = GREEDY_ROW + f", set {row.set}" * (len(sets) > 1)
            wider.append(row._replace(name=name, system=GREEDY, figures=keys))
        wider.append(row)
    return wider


def cells(row: Row, key: str, measured: Measured) -> list[str]:
    """A figure measured here, and the published one."""
    value = measured.figure(row, key) if key in row.figures else None
    absent = NOT_RUN if key in row.figures else NOTHING
    here = absent if value is None else f"{value:.2f}"
    return [here, row.figures.get(key) or NOTHING]


def render(
    rows: Sequence[Row], measured: Measured, notes: Sequence[Note] = (), ratios: bool = False
) -> str:
    """One table: for each figure a column measured here and one published; the notes below it.
    ``ratios``: whether columns of ``RATIOS`` that the paper does not have follow."""
    keys = list(dict.fromkeys(key for row in rows for key in row.figures))
    more = [key for key in RATIOS if ratios and key not in keys]
    known = {base(key) for key in keys}
    shown = [n for n in notes if n.table in (EVERY, rows[0].table) and n.key in known]
    marks = dict.fromkeys(known, "")
    for letter, note in zip(string.ascii_lowercase, shown):
        marks[note.key] += f" ({letter})"
    head = ["row"]
    for key in keys:
        head += [f"{title(key)} here{marks[base(key)]}", f"paper{marks[base(key)]}"]
    head += [f"{title(key)} here" for key in more]
    body = []
    for row in rows:
        wider = row._replace(figures=dict.fromkeys(more, "")) if row.system != NOTHING else row
        row_cells = [cell for key in keys for cell in cells(row, key, measured)]
        body.append([row.name, *row_cells, *(cells(wider, key, measured)[0] for key in more)])
    texts = [f"({letter}) {note.text}" for letter, note in zip(string.ascii_lowercase, shown)]
    return "\n\n".join([table(head, body), *texts])


def write(
    paper: pathlib.Path,
    folder: pathlib.Path,
    scores: pathlib.Path,
    direction: str,
    note: str,
    output: pathlib.Path,
) -> None:
    """Write the tables of one direction. ``scores``: scores.json, where the outputs were scored.
    ``direction``: as en-de: rows of this one and of ``*``."""
    rows, remarks = read(paper)
    measured = Measured(folder, scores)
    chosen = [row for row in rows if row.direction in (direction, "*")]
    if not chosen:
        raise ValueError(f"{paper} has no rows of direction {direction}")
    parts = []
    for (name, _), lines in tables(chosen).items():
        text = render(with_greedy(lines), measured, remarks, any(map(drafts, lines)))
        parts.append(f"{name}, {direction}\n\n{text}")
    notes = [f"- {note}"]
    notes += [f"- {name}: {line}" for name, line in sorted(measured.sources.items())]
    parts.append("\n".join(notes))
    write_text(output, "\n\n".join(parts) + "\n", make_folder=True)
