"""docs/architecture.md and the glossary say what the code does: imports, names, terms once."""

import ast
import inspect
import re

import pytest
from doc_pages import ROOT, sections, text_of

from fairseq_specdec.decoding.general_step import GeneralStep
from fairseq_specdec.decoding.loop import Batch

PACKAGE = ROOT / "fairseq_specdec"
PAGE = ROOT / "docs" / "architecture.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
CORE = ("engine", "acceptance", "drafting", "decoding")


MODULES = sorted(PACKAGE.rglob("*.py"))
# Between these folders imports are absolute.
IMPORTED = re.compile(r"^ *(?:from|import) fairseq_specdec\.(\w+)", re.M)


def imported_by(folder):
    """The folders that the modules of a folder import, itself left out."""
    texts = (path.read_text(encoding="utf-8") for path in (PACKAGE / folder).rglob("*.py"))
    return {name for text in texts for name in IMPORTED.findall(text)} - {folder}


@pytest.mark.parametrize("folder", CORE)
def test_imports_run_as_the_page_says(folder):
    row = re.search(rf"^\| `{folder}` \|([^|]*)\|", text_of(PAGE), flags=re.M)
    assert imported_by(folder) & set(CORE) == set(re.findall(r"`(\w+)`", row.group(1)))


def defined_in(path):
    """Names of classes, functions and methods of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.ClassDef, ast.FunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


@pytest.mark.parametrize(
    "names, path", re.findall(r"^\*\*(.+?)\*\* \(`([\w/]+)(?:\.py)?`\)", text_of(PAGE), flags=re.M)
)
def test_a_contract_is_where_the_page_says(names, path):
    place = PACKAGE / path
    files = place.glob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    defined = set().union(*map(defined_in, files))
    assert set(names.split(" and ")) <= defined


def test_the_page_describes_every_contract():
    text = sections(PAGE)["The contracts"]
    told = {name for names in re.findall(r"^\*\*(.+?)\*\*", text, flags=re.M)
            for name in names.split(" and ")}  # fmt: skip
    assert told == {
        "DraftTree", "Hypotheses", "Layout", "Scores", "Edits", "Verifier", "VerifierSession",
        "Drafter", "DraftSession", "AcceptanceRule", "Search", "LogitsPolicy", "DecodingOptions",
        "Strategy",
    }  # fmt: skip


def test_code_that_the_page_names_exists():
    """Classes and methods in the text, but for those that are planned."""
    planned = {"Backend", "Beam"}
    defined = set().union(*(defined_in(path) for path in MODULES))
    named = set(re.findall(r"`(?:\w+\.)?([A-Z][a-z]+[A-Z]\w+|_\w+|[a-z_]+(?=\())", text_of(PAGE)))
    assert len(named) > 20
    assert not {name for name in named - planned - defined if name != "SequenceGenerator"}


def test_an_iteration_has_the_parts_in_the_order_of_the_page():
    steps = re.findall(r"^\d\. \*\*(.+?)\.\*\*", text_of(PAGE), flags=re.M)
    assert steps == ["Propose", "Lay out", "Score", "Constrain", "Advance", "Commit"]
    code = inspect.getsource(GeneralStep.step) + inspect.getsource(Batch.iterate)
    places = [re.search(rf"\b_?{s.lower().replace(' ', '_')}\(", code).start() for s in steps]
    assert places == sorted(places)


def test_the_glossary_has_every_term_once_in_order():
    terms = re.findall(r"^\| \*\*(.+?)\*\* \|", text_of(GLOSSARY), flags=re.M)
    assert len(terms) > 50
    assert terms == sorted(set(terms), key=str.lower)


def test_code_that_the_glossary_names_exists():
    named = {n for names in re.findall(r"\((`[A-Z][^)]*)\)", text_of(GLOSSARY))
             for n in re.findall(r"`(\w+)`", names)}  # fmt: skip
    defined = set().union(*(defined_in(path) for path in MODULES))
    assert len(named) > 10 and named <= defined
