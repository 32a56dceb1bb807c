"""The papers' tables with the figures measured here beside the published ones.

``tables`` of a recipe has for each table its ``figures``, keys of the columns, and its ``rows``, or
those of each direction: ``[name, set/system, figure ...]``, or ``{row: [name, set/system],
DIRECTION: [figure ...]}``. ``set/system`` is what was measured (a
row of ``SET.json`` of specdec-bench); ``-`` is a row that cannot be run here. A figure is the
published one, ``~`` where the paper gives none, ``-`` (or nothing at the end) where a row has no
such column. With ``for`` a row is several rows, and a list has the figures of each. Keys are
those of specdec-bench's JSON; ``key@N`` is the one at batch size N, ``ms.SECTION`` a part of the
time, ``ms_iter.SECTION`` the same for each iteration, ``share.SECTION`` its share in percent,
``text.KEY`` one of scores.json, ``energy.KEY`` one of energy.json. "not run": what was not.

Every table with a system that drafts also gets what no paper has: a row of this engine without
drafts, and two columns, the speed over stock fairseq at beam 5 and over that row. A published ratio
mixes the engine and the algorithm where the two engines differ; the second column is the
algorithm's alone.

``notes`` of a table, or of the recipe, say by key where our figure and the published one are not of
one kind: the column gets a letter, and the text follows the table.
"""

import json
import pathlib
import string
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import recipe_file
from recipe_file import TABLES, each_value, fail, fields, mapping, section, text

from fairseq_specdec.io.atomic import write_text

NOTHING = "-"
EVERY, NONE = "*", "~"
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
    "text.rouge1": "R-1",
    "text.rouge2": "R-2",
    "text.rougeLsum": "R-L",
    "text.sari": "SARI",
    "text.bleu": "BLEU",
}


class Row(NamedTuple):
    """A row of a table; ``figures`` maps a key to what was published (``""``: nothing)."""

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


def made_rows(where: str, table: str, among: str, keys: list[str], value: Any) -> Iterator[Row]:
    """The rows of one entry of a table. ``among``: the direction that it is listed under."""
    for number, (_, one) in enumerate(each_value(where, "", value)):
        more = dict(fields(where, one, "row", " ".join(one))) if isinstance(one, dict) else {}
        cells = more.pop("row", one)
        for direction, own in more.items() or [(among, [])]:
            if not isinstance(cells, list) or not isinstance(own, list):
                raise fail(where, "expected a list")
            listed = [*cells, *own]
            if not 2 <= len(listed) <= 2 + len(keys):
                raise fail(where, f"expected [name, set/system, at most {len(keys)} figures]")
            name, place, *figures = (c[number] if isinstance(c, list) else c for c in listed)
            group, slash, system = place.partition("/")
            if not slash and place != NOTHING:
                raise fail(where, f"{place!r} is no set/system, nor {NOTHING}")
            published = {key: "" if figure == NONE else figure
                         for key, figure in zip(keys, figures) if figure != NOTHING}  # fmt: skip
            yield Row(table, direction, name, group, system or NOTHING, published)


def read(path: pathlib.Path, name: str = "tables") -> tuple[list[Row], list[Note]]:
    """The rows and the notes of a section of a recipe."""
    rows: list[Row] = []
    where, declared = section(path, name)
    notes = [(where, EVERY, *note) for note in mapping(where, section(path, "notes")[1]).items()]
    for title, entry in mapping(where, declared).items():
        place = f"{where}.{title}"
        own = fields(place, entry, "figures rows", "notes")
        more = mapping(f"{place}.notes", own.get("notes"))
        notes += [(place, title, key, text(place, note)) for key, note in more.items()]
        by = own["rows"] if isinstance(own["rows"], dict) else {EVERY: own["rows"]}
        for direction, listed in by.items():
            for number, value in enumerate(listed, 1):
                at = f"{place}.rows.{direction}.{number}"
                rows += made_rows(at, title, direction, own["figures"].split(), value)
    columns = {(row.table, base(key)) for row in rows for key in row.figures}
    columns |= {(EVERY, key) for _, key in columns}
    for place, title, key, _ in notes:
        if (title, key) not in columns:
            raise fail(f"{place}.notes.{key}", "there is no column of this key")
    return rows, [Note(*note[1:]) for note in notes]


def by_title(path: pathlib.Path) -> dict[str, list[Row]]:
    """The rows of each table of a recipe, in all its sections of tables."""
    made: dict[str, list[Row]] = {}
    for name in filter(TABLES.fullmatch, recipe_file.read(path)):
        made |= {title: [] for title in section(path, name)[1]}
        for row in read(path, name)[0]:
            made[row.table].append(row)
    return made


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
        from fairseq_specdec.bench import tables as bench_tables  # brings in torch

        self._scores: dict[str, Any] = {}
        for path in filter(None, (scores, folder.parent / "energy.json")):
            made = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            for name, figures in made.items():
                self._scores.setdefault(name, {}).update(figures)
        self._lines: dict[tuple[str, str, int], Any] = {}
        self._machines: dict[str, str] = {}
        for path in folder.glob("*.json"):
            run = json.loads(path.read_text(encoding="utf-8"))
            for part in run.get("runs", []):  # none in the record of a set
                self._machines[path.stem] = bench_tables.line(run["provenance"])
                for line in part["rows"]:
                    self._lines[path.stem, line["system"], part["batch_size"]] = line
        self.sources: dict[str, str] = {}

    def figure(self, row: Row, key: str) -> float | None:
        """The figure measured, or None."""
        kind, _, name = key.partition(".")
        if kind in ("text", "energy"):
            return self._scores.get(f"{row.set}.{row.system.replace(' ', '_')}", {}).get(name)
        key, _, size = key.partition("@")
        line = self._lines.get((row.set, row.system, int(size or 1)))
        if line is None:
            return None
        self.sources[row.set] = self._machines[row.set]
        value: float | None = part_of(line, kind, name) if kind in PARTS else line.get(key)
        return value


def base(key: str) -> str:
    """A key without its batch size."""
    return key.partition("@")[0]


def title(key: str) -> str:
    name, _, size = key.partition("@")
    kind, _, section = name.partition(".")
    if kind in PARTS:
        return PARTS[kind].format(section.replace("_", " "))
    return TITLES.get(name, name) + (f", batch {size}" if size else "")


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


def cell(row: Row, key: str, measured: Measured) -> str:
    """A figure measured here."""
    value = measured.figure(row, key)
    return NOT_RUN if value is None else f"{value:.2f}"


def render(
    rows: Sequence[Row], measured: Measured, notes: Sequence[Note] = (), ratios: bool = False
) -> str:
    """One table: for each figure a column measured here and one published; the notes below it.
    ``ratios``: whether columns of ``RATIOS`` that the paper does not have follow."""
    from fairseq_specdec.bench.tables import table

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
        body.append([row.name])
        for key in keys:
            here = cell(row, key, measured) if key in row.figures else NOTHING
            body[-1] += [here, row.figures.get(key) or NOTHING]
        for key in more:
            body[-1].append(NOTHING if row.system == NOTHING else cell(row, key, measured))
    texts = [f"({letter}) {note.text}" for letter, note in zip(string.ascii_lowercase, shown)]
    return "\n\n".join([table(head, body), *texts])


def write(
    paper: pathlib.Path,
    sections: Sequence[str],
    folder: pathlib.Path,
    scores: pathlib.Path,
    direction: str,
    note: str,
    output: pathlib.Path,
) -> None:
    """Write the tables of one direction.

    Args:
        sections: of the recipe ``paper``.
        scores: scores.json, where the outputs were scored.
        direction: as en-de: rows of this one and of ``*``.
    """
    declared = [read(paper, section) for section in sections]
    remarks = [note for _, notes in declared for note in notes]
    measured = Measured(folder, scores)
    chosen = [row for rows, _ in declared for row in rows if row.direction in (direction, "*")]
    if not chosen:
        raise ValueError(f"{paper} has no rows of direction {direction}")
    parts = []
    for name in dict.fromkeys(row.table for row in chosen):
        lines = [row for row in chosen if row.table == name]
        text = render(with_greedy(lines), measured, remarks, any(map(drafts, lines)))
        parts.append(f"{name}, {direction}\n\n{text}")
    notes = [f"- {note}"]
    notes += [f"- {name}: {line}" for name, line in sorted(measured.sources.items())]
    parts.append("\n".join(notes))
    write_text(output, "\n\n".join(parts) + "\n", make_folder=True)
