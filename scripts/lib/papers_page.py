"""The column "here" of the tables in docs/recipes.md, from the recipes that make them.

Writes it anew; with --check exits with 1 if it is stale. What no recipe makes is left as it is.
"""

import re
import sys

import paper_table
from recipe import REPO, Recipe, recipe_names

PAGE = REPO / "docs" / "recipes.md"
PLACES = re.compile(r"(Table|Figure|section)s? (\d[\d.]*(?:(?:, | and )\d[\d.]*)*)")


def places(paper: str, title: str) -> list[tuple[str, str, str]]:
    """What a title names: Table 5 and Table 14 of "Tables 5 and 14"."""
    found = PLACES.findall(title)
    return [(paper, kind, n) for kind, listed in found for n in re.findall(r"\d[.\d]*\b", listed)]


def makers() -> dict[tuple[str, str, str], dict[str, list[str]]]:
    """For each place in a paper the recipes that make it, each with its sets of systems."""
    made: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for name in recipe_names():
        for title, rows in paper_table.by_title(Recipe(name, {}).file).items():
            sets = dict.fromkeys(row.set for row in rows if row.set != paper_table.NOTHING)
            for place in places(title.split()[0], title):
                made.setdefault(place, {})[name] = [*sets]
    return made


def cell(recipes: dict[str, list[str]]) -> str:
    """Recipes and their sets; those of the same sets together."""
    by_sets: dict[str, list[str]] = {}
    for name, sets in recipes.items():
        by_sets.setdefault(": " * bool(sets) + ", ".join(sets), []).append(f"`{name}`")
    return "; ".join(", ".join(names) + sets for sets, names in by_sets.items())


def written(page: str) -> str:
    """The page with the column made anew."""
    made, paper, lines = makers(), "", page.split("\n")
    for i, line in enumerate(lines):
        if line.startswith("## "):
            paper = line.split()[1]
        named, *rest = line.split(" | ")
        found = [made[each] for each in places(paper, named.split(":")[0]) if each in made]
        if len(rest) == 2 and found:
            recipes = {name: sets for each in found for name, sets in each.items()}
            lines[i] = " | ".join([named, cell(recipes), rest[1]])
    return "\n".join(lines)


if __name__ == "__main__":
    page = written(PAGE.read_text("utf-8"))
    if "--check" in sys.argv and page != PAGE.read_text("utf-8"):
        sys.exit(f"{PAGE} is stale: run python scripts/lib/papers_page.py")
    PAGE.write_text(page, "utf-8")
