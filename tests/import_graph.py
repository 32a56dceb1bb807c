"""Which modules of a package import which, read from their source (pure functions).

Imports count wherever they stand: in functions and under ``TYPE_CHECKING`` too.
"""

import ast
import graphlib
from collections import defaultdict


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


def _ancestors(name):
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def arrows(modules):
    """Each module's imports within the package, as a set of names.

    Importing ``a.b.c`` runs ``a`` and ``a.b`` first, so they are imported too, but for those that
    the importing module lies in itself: they are running already.
    """
    targets_of = {}
    for name, path in modules.items():
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        targets = set(_imported(ast.parse(path.read_text(encoding="utf-8")), package))
        run = {each for target in targets for each in _ancestors(target)}
        # What a statement names itself counts, though the importer lies in it.
        named = {each if each in modules else each.rpartition(".")[0] for each in targets}
        targets_of[name] = {
            each
            for each in (run - set(_ancestors(package))) | named
            if each in modules and each != name
        }
    return targets_of


def between_packages(graph):
    """The same for parts of the package: its folders, and the modules that lie in no folder."""

    def part(name):
        return ".".join(name.split(".")[:2])

    targets_of = defaultdict(set)
    for name, targets in graph.items():
        targets_of[part(name)] |= {part(each) for each in targets} - {part(name)}
    return dict(targets_of)


def cycle(graph):
    """Names of nodes that reach each other, in order; empty without a cycle."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []
