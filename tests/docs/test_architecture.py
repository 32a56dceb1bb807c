"""docs/architecture.md and the glossary say what the code does: imports, names, terms once."""

import ast
import re

import pytest
from doc_pages import ROOT, sections, text_of
from scripted_drafter import ScriptedDrafter, ScriptedSession
from toy_strategies import make_generator
from toy_translation import WORDS, make_sample

from fairseq_specdec.decoding import general_step
from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.policy import DecodingConstraints
from fairseq_specdec.engine.layout import Layout
from fairseq_specdec.engine.verifier import VerifierSession

PACKAGE = ROOT / "fairseq_specdec"
PAGE = ROOT / "docs" / "architecture.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
CORE = ("engine", "costs", "acceptance", "drafting", "decoding")


MODULES = sorted(PACKAGE.rglob("*.py"))
# Between these folders imports are absolute.
IMPORTED = re.compile(r"^ *(?:from|import) fairseq_specdec\.(\w+)", re.M)


def imported_by(folder):
    """The folders that the modules of a folder import, itself left out."""
    texts = (path.read_text(encoding="utf-8") for path in (PACKAGE / folder).rglob("*.py"))
    return {name for text in texts for name in IMPORTED.findall(text)} - {folder}


@pytest.mark.parametrize("folder", CORE)
def test_imports_run_as_the_page_describes(folder):
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
def test_a_contract_is_where_the_page_has_it(names, path):
    place = PACKAGE / path
    files = place.glob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    defined = set().union(*map(defined_in, files))
    assert set(names.split(" and ")) <= defined


def test_the_page_describes_every_contract():
    text = sections(PAGE)["The contracts"]
    titles = {name for names in re.findall(r"^\*\*(.+?)\*\*", text, flags=re.M)
            for name in names.split(" and ")}  # fmt: skip
    assert titles == {
        "Draft", "Hypotheses", "Layout", "Scores", "Edits", "Verifier", "VerifierSession",
        "Drafter", "DraftSession", "AcceptanceRule", "Step", "DecodingConstraints",
        "DecodingOptions", "Strategy", "Planner", "Plan",
    }  # fmt: skip


def test_code_that_the_page_names_exists():
    """Classes and methods in the text, but for those that are planned."""
    planned = {"Backend", "Beam"}
    defined = set().union(*(defined_in(path) for path in MODULES))
    named = set(re.findall(r"`(?:\w+\.)?([A-Z][a-z]+[A-Z]\w+|_\w+|[a-z_]+(?=\())", text_of(PAGE)))
    assert len(named) > 20
    assert not {name for name in named - planned - defined if name != "SequenceGenerator"}


def test_an_iteration_has_the_parts_in_the_order_of_the_page(monkeypatch):
    """What a batch calls."""
    steps, called = re.findall(r"^\d\. \*\*(.+?)\.\*\*", text_of(PAGE), flags=re.M), []

    def note(owner, name, step):
        method = getattr(owner, name)

        def noted(*given, **named):
            called.append(step)
            return method(*given, **named)

        monkeypatch.setattr(owner, name, noted)

    note(ScriptedSession, "propose", "Propose")
    note(Layout, "chain", "Lay out")
    note(VerifierSession, "score", "Score")
    note(DecodingConstraints, "edits", "Constrain")
    note(general_step, "advance", "Advance")
    note(VerifierSession, "commit", "Commit")
    overrides = Overrides(ScriptedDrafter([[5, 6, 7, 8]], "perfect", WORDS), always_draft=True)
    generator = make_generator("greedy", backend="torch", overrides=overrides)
    with generator.batch(generator.models, make_sample([[1, 2, 3]])) as batch:
        batch.iterate()
    assert called == steps and len(steps) == 6


def test_the_glossary_has_every_term_once_in_order():
    terms = re.findall(r"^\| \*\*(.+?)\*\* \|", text_of(GLOSSARY), flags=re.M)
    assert len(terms) > 50
    assert terms == sorted(set(terms), key=str.lower)


def test_code_that_the_glossary_names_exists():
    named = {n for names in re.findall(r"\((`[A-Z][^)]*)\)", text_of(GLOSSARY))
             for n in re.findall(r"`(\w+)`", names)}  # fmt: skip
    defined = set().union(*(defined_in(path) for path in MODULES))
    assert len(named) > 10 and named <= defined
