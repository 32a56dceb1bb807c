"""Imports run one way: no cycles between modules nor between packages, and ``io`` stands alone."""

import pathlib
import subprocess
import sys

import pytest
from import_graph import arrows, between_packages, cycles, modules_of

from fairseq_specdec.compat.user_dir import PACKAGE

SCRIPTS = pathlib.Path(PACKAGE).parent / "scripts"
GRAPH = arrows(modules_of(pathlib.Path(PACKAGE)))
PACKAGES = between_packages(GRAPH)

# What each may import of the package; what is not named here may import anything without a cycle.
ALLOWED = {
    "io": set(),
    "engine": {"io", "version"},
    "acceptance": {"engine", "io"},
    "drafting": {"acceptance", "engine", "io"},
    "legacy": {"io"},
}
# Nothing that decodes or trains knows the tools that are built on it.
TOOLS = {"bench", "conversion", "data", "demo", "hub", "noise", "serve", "tasks"}
CORE = {"compat", "criterions", "decoding", "models", "trace", "training"}


def test_no_cycle_between_modules():
    assert len(GRAPH) > 100 and cycles(GRAPH) == []


def test_no_cycle_between_packages():
    """Without exceptions; folders of the package, and modules of it that lie in none."""
    assert len(PACKAGES) > 15 and cycles(PACKAGES) == []


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_the_core_is_built_in_layers(package):
    allowed = {f"fairseq_specdec.{each}" for each in ALLOWED[package]}
    assert PACKAGES[f"fairseq_specdec.{package}"] <= allowed


@pytest.mark.parametrize("package", sorted(CORE))
def test_the_core_does_not_know_the_tools(package):
    tools = {f"fairseq_specdec.{each}" for each in TOOLS}
    assert PACKAGES[f"fairseq_specdec.{package}"].isdisjoint(tools)


# ---- io alone ------------------------------------------------------------------------------------

ALONE = """
import sys
before = set(sys.modules)
from fairseq_specdec.io import atomic, file_locks, progress, provenance
assert provenance.commit() and provenance.versions(["tqdm"])["tqdm"]
print(*sorted({name.split(".")[0] for name in set(sys.modules) - before}))
"""


def test_io_is_loaded_by_the_scripts_without_what_is_slow():
    """Of packages that are installed, only tqdm, which is quick to import."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE], cwd=str(SCRIPTS.parent), stdout=subprocess.PIPE,
        text=True, check=True,
    )  # fmt: skip
    loaded = set(done.stdout.split())
    assert {"fairseq_specdec", "tqdm"} <= loaded
    assert loaded.isdisjoint({"fairseq", "numpy", "torch", "omegaconf"})


def test_recipes_are_listed_before_anything_is_installed():
    """``-E -s -S``: without site-packages, so that the standard library alone is there."""
    done = subprocess.run(
        [sys.executable, "-E", "-s", "-S", str(SCRIPTS / "lib" / "runner.py"), "--list"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "bild" in done.stdout


# ---- the reader itself ---------------------------------------------------------------------------


@pytest.fixture
def graph_of(tmp_path):
    """The import graph of a package ``p`` of these files."""

    def make(files):
        for name, text in files.items():
            path = tmp_path / "p" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            init = path.parent / "__init__.py"
            init.exists() or init.write_text("")
        (tmp_path / "p" / "__init__.py").touch()
        return arrows(modules_of(tmp_path / "p"))

    return make


@pytest.mark.parametrize(
    "back",
    [
        "from p.a import one",
        "import p.a.one",
        "from ..a.one import x",
        "from ..a import one",
        "from .. import a",
        "def f():\n    from ..a import one",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a.one import x",
        "class A:\n    import p.a.one as other",
    ],
)
def test_a_cycle_is_found_wherever_the_import_stands(graph_of, back):
    files = {"a/__init__.py": "from .one import x", "a/one.py": "from ..b import two\nx = 1"}
    straight = graph_of({**files, "b/two.py": "import os, re"})
    assert cycles(straight) == cycles(between_packages(straight)) == []
    bent = graph_of({**files, "b/two.py": back})
    assert "p.b.two" in cycles(bent)[0] and "p.a.one" in cycles(bent)[0]
    assert cycles(between_packages(bent)) == [["p.a", "p.b"]]


def test_packages_may_form_a_cycle_where_their_modules_form_none(graph_of):
    graph = graph_of(
        {
            "a/one.py": "import p.b.two",
            "a/other.py": "",
            "b/two.py": "",
            "b/last.py": "import p.a.other",
        }
    )
    assert cycles(graph) == [] and cycles(between_packages(graph)) == [["p.a", "p.b"]]


def test_a_module_that_imports_the_package_it_lies_in_is_a_cycle(graph_of):
    graph = graph_of({"a/__init__.py": "from .one import x", "a/one.py": "from p.a import x"})
    assert cycles(graph) == [["p.a", "p.a.one"]]
