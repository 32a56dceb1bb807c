"""The pages of the papers list every table and figure, and name the recipe that makes it."""

import re

import paper_table
import pytest
from recipe_parts import REPO

# Of each page: how its paper is called, how many tables it has, and how many figures.
PAPERS = {
    "ge2022": ("Ge et al.", 17, 8),
    "stern2018": ("Stern et al.", 4, 4),
    "kim2023": ("Kim et al.", 5, 10),
    "xia2023": ("Xia et al.", 16, 6),
}
NUMBERS = re.compile(r"(Table|Figure|section)s? (\d+(?:\.\d+)?(?:(?:, | and | to )\d+(?:\.\d+)?)*)")


def numbered(text):
    """("Table", "5") and so on: what the beginning of a row is about."""
    numbers = set()
    for kind, listed in NUMBERS.findall(text):
        for part in re.split(r", | and ", listed):
            first, _, last = part.partition(" to ")
            whole = range(int(first), int(last) + 1) if last else [first]
            numbers |= {(kind, str(number)) for number in whole}
    return numbers


def rows(page):
    lines = (REPO / f"docs/papers/{page}.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    return [row for row in cells if len(row) == 3 and not row[0].startswith(("in the", "-"))]


@pytest.mark.parametrize("page", PAPERS)
def test_every_table_and_figure_has_one_row(page):
    _, tables, figures = PAPERS[page]
    listed = [each for name, *_ in rows(page) for each in numbered(name.partition(":")[0])]
    wanted = [("Table", str(n)) for n in range(1, tables + 1)]
    wanted += [("Figure", str(n)) for n in range(1, figures + 1)]
    assert sorted(each for each in listed if each[0] != "section") == sorted(wanted)


@pytest.mark.parametrize("page", PAPERS)
def test_recipes_make_what_their_table_lists(page):
    """And every table of a recipe stands on its paper's page, with its sets."""
    name = PAPERS[page][0]
    sections = {}
    for about, here, _ in rows(page):
        for each in numbered(about.partition(":")[0]):
            sections.setdefault(each, "")
            sections[each] += here
    for path in (REPO / "scripts").glob("*/paper*.tsv"):
        for row in paper_table.read(path)[0]:
            if not row.table.startswith(name) or row.set == "-":
                continue
            first = min(numbered(row.table), key=lambda each: float(each[1]))
            assert f"`scripts/{path.parent.name}`" in sections[first], row
            assert row.set in re.findall(r"\w+", sections[first]), row


@pytest.mark.parametrize("page", PAPERS)
def test_configs_and_recipes_exist(page):
    text = (REPO / f"docs/papers/{page}.md").read_text(encoding="utf-8")
    for named in re.findall(r"`((?:scripts|configs|fairseq_specdec)/[^`]+)`", text):
        assert list(REPO.glob(named)), named
