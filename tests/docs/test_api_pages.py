"""The pages of docs/api name modules, classes and members that exist; Sphinx is not needed."""

import importlib
import re

import pytest
from doc_pages import ROOT, blocks_of

DIRECTIVE = re.compile(r"^\.\. auto(\w+):: ([\w.]+)\n((?:   :.*\n)*)", re.M)
FOUND = [
    (page.stem, *match)
    for page in sorted((ROOT / "docs" / "api").glob("*.md"))
    for block in blocks_of(page)
    for match in DIRECTIVE.findall(block.text)
]


def resolve(kind, name):
    if kind == "module":
        return importlib.import_module(name)
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("page, kind, name, options", FOUND, ids=[entry[2] for entry in FOUND])
def test_what_a_page_documents_exists(page, kind, name, options):
    assert name.startswith(f"fairseq_specdec.{page}") or name.startswith("fairseq_specdec.config.")
    documented = resolve(kind, name)
    assert documented.__doc__
    for member in re.findall(r":members: (.+)", options):
        for each in member.split(", "):
            assert getattr(documented, each).__doc__, f"{name}.{each}"


@pytest.mark.parametrize("page", ["engine", "drafting", "acceptance", "decoding"])
def test_a_page_documents_the_contracts(page):
    assert sum(entry[0] == page for entry in FOUND) >= 6
    with pytest.raises(AttributeError):
        resolve("class", f"fairseq_specdec.{page}.NoSuchThing")
