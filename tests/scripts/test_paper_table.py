"""The papers' tables beside our figures: what is compared, and what is marked."""

import json

import paper_table
import pytest
from recipe_parts import REPO

SCRIPTS = REPO / "scripts"


def measured_row(folder, name, **row):
    """A run of one system, named ``name``, as ``SET.json``."""
    machine = {"machine": {"device": "a toy"}, "threads": 1, "versions": {}, "commit": "abc"}
    run = {"runs": [{"batch_size": 1, "rows": [row]}], "provenance": machine}
    (folder / f"{name}.json").write_text(json.dumps(run), encoding="utf-8")
    return paper_table.Measured(folder, None)


def test_the_profile_is_booked_as_the_paper_books_it(tmp_path):
    """Ge et al. 2022, Table 15: a drafter's encoder is no part of the verifier's."""
    path = SCRIPTS / "wmt14_ende" / "paper.tsv"
    (row,) = (row for row in paper_table.read(path)[0] if row.table == "Ge et al. Table 15")
    sections = {"encoder": 1.0, "drafter_encoder": 2.0, "drafter": 3.0, "verifier": 4.0, "rest": 5}
    measured = measured_row(
        tmp_path, row.set, system=row.system, iter=2.0, ms_by_section=sections, ms_mean=15.0
    )
    head, _, cells = (
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in paper_table.render([row], measured).splitlines()
    )
    shown = dict(zip(head[1::2], zip(map(float, cells[1::2]), map(float, cells[2::2]))))
    assert shown == {
        "ms, encoder here": (1, 5.65),
        "ms, drafter encoder here": (2, 5.73),
        "ms, drafter here": (3, 31.44),
        "ms, verifier here": (4, 27.33),
        "ms, rest here": (5, 3.31),
        "ms here": (15, 73.46),
    }
    published = [figure for _, figure in shown.values()]
    assert sum(published[:-1]) == pytest.approx(published[-1], abs=0.005)


PROFILE = "Ge et al. Table 16\ten-de\tGAD\tbase\tgad\ttok=2 memory_mb=9 memory_mb@4=10\n"


def test_columns_of_another_kind_are_marked_and_explained(tmp_path):
    path = tmp_path / "paper.tsv"
    other = PROFILE.replace("Table 16", "Table 1")
    notes = "note\tGe et al. Table 16\tmemory_mb\tnot the same memory\nnote\t*\ttok\twith </s>\n"
    path.write_text(PROFILE + other + notes, encoding="utf-8")
    rows, marks = paper_table.read(path)
    measured = measured_row(tmp_path, "base", system="gad", tok=2.5, memory_mb=7.0)
    first, second = (paper_table.render([row], measured, marks) for row in rows)
    head = [cell.strip() for cell in first.splitlines()[0].split("|")[2:-1]]
    assert head == [
        "Tok. here (b)", "paper (b)",
        "MB here (a)", "paper (a)", "MB, batch 4 here (a)", "paper (a)",
    ]  # fmt: skip
    assert first.endswith("|\n\n(a) not the same memory\n\n(b) with </s>")
    assert "(a) with </s>" in second and "memory" not in second


@pytest.mark.parametrize(
    "note",
    ["note\tGe et al. Table 16\tbleu\ttext", "note\tGe et al. Table 2\ttok\ttext", "note\t*\ttok"],
)
def test_notes_that_no_column_would_show_are_refused(tmp_path, note):
    path = tmp_path / "paper.tsv"
    path.write_text(PROFILE + note + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"paper\.tsv:2: expected note, a table or \*"):
        paper_table.read(path)[1]


@pytest.mark.parametrize("recipe", sorted(path.parent.name for path in SCRIPTS.glob("*/paper.tsv")))
def test_figures_that_the_authors_count_otherwise_are_not_set_beside_ours(recipe):
    """Tok. of GAD and SpecDec leaves </s> out; their BLEU of translations splits compounds."""
    path = SCRIPTS / recipe / "paper.tsv"
    noted = {(note.table, note.key) for note in paper_table.read(path)[1]}
    for row in paper_table.read(path)[0]:
        theirs = row.table.startswith(("Ge et al.", "Xia et al.")) and row.set != "-"
        assert not theirs or not {"tok", "bleu"} & set(row.figures), row
        for key in map(paper_table.base, row.figures):
            assert key != "memory_mb" or (row.table, key) in noted, row
