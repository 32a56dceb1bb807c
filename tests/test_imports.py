"""Imports run one way: no cycles between modules nor between packages, and ``io`` stands alone."""

import pathlib
import subprocess
import sys

import pytest
from import_graph import arrows, between_packages, cycle, modules_of

from fairseq_specdec.compat.user_dir import PACKAGE

SCRIPTS = pathlib.Path(PACKAGE).parent / "scripts"
GRAPH = arrows(modules_of(pathlib.Path(PACKAGE)))
PACKAGES = between_packages(GRAPH)

# What each may import of the package; what is not named here may import anything without a cycle.
ALLOWED = {
    "errors": set(),
    "io": {"errors"},
    "engine": {"errors", "io", "version"},
    "acceptance": {"engine", "errors", "io"},
    "drafting": {"acceptance", "engine", "errors", "io"},
}
# Nothing that decodes or trains knows the tools that are built on it.
TOOLS = {"bench", "conversion", "data", "hub", "serve", "tasks"}
CORE = {"compat", "criterions", "decoding", "models", "trace", "training"}


def test_no_cycle_between_modules_nor_between_packages():
    """Without exceptions; packages are folders, and modules that lie in none."""
    assert len(GRAPH) > 100 and cycle(GRAPH) == []
    assert len(PACKAGES) > 15 and cycle(PACKAGES) == []


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
from fairseq_specdec.io import atomic, progress, provenance
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


def test_what_recipes_need_is_named_before_anything_is_installed():
    """``-E -s -S``: without site-packages, so that the standard library alone is there."""
    done = subprocess.run(
        [sys.executable, "-E", "-s", "-S", str(SCRIPTS / "lib" / "runner.py"), "--list"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "scripts/run needs PyYAML: pip install -e . installs all of it\n"
