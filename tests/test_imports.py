"""Imports run one way: no cycles between modules nor between packages."""

import ast
import graphlib
import pathlib
import subprocess
import sys
from collections import defaultdict

from fairseq_specdec.compat.user_dir import PACKAGE

SCRIPTS = pathlib.Path(PACKAGE).parent / "scripts"


def modules_of(root):
    """The modules of the package in folder ``root``: name to file, ``a/__init__.py`` as ``a``."""
    paths = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def _imported(tree, package):
    """Full names that a module's import statements bind; ``package`` resolves relative ones."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            parts = (base if node.level else []) + ([node.module] if node.module else [])
            yield from (".".join([*parts, alias.name]) for alias in node.names)


def arrows(modules):
    """Each module's imports within the package, as a set of names."""
    targets_of = {}
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        targets = _imported(ast.parse(path.read_text(encoding="utf-8")), package)
        named = {each if each in modules else each.rpartition(".")[0] for each in targets}
        targets_of[name] = named & set(modules) - {name}
    return targets_of


def between_packages(graph):
    """The same for parts of the package: its folders, and the modules that lie in no folder."""

    def part(name):
        return ".".join(name.split(".")[:2])

    targets_of = defaultdict(set)
    for name, targets in graph.items():
        targets_of[part(name)] |= {part(each) for each in targets} - {part(name)}
    return dict(targets_of)


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
    assert len(GRAPH) > 100 and len(PACKAGES) > 15
    for graph in (GRAPH, PACKAGES):
        graphlib.TopologicalSorter(graph).prepare()  # names a cycle


def test_the_core_is_built_in_layers_and_does_not_know_the_tools():
    for part, targets in PACKAGES.items():
        package, known = part.rpartition(".")[2], {each.rpartition(".")[2] for each in targets}
        assert known <= ALLOWED.get(package, known), package
        assert package not in CORE or known.isdisjoint(TOOLS), package
    assert {f"fairseq_specdec.{each}" for each in {*ALLOWED, *CORE}} <= {*PACKAGES}


def test_what_recipes_need_is_named_before_anything_is_installed():
    """``-E -s -S``: without site-packages, so that the standard library alone is there."""
    done = subprocess.run(
        [sys.executable, "-E", "-s", "-S", str(SCRIPTS / "lib" / "runner.py"), "--list"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "scripts/run needs PyYAML: pip install -e . installs all of it\n"
