"""The tests themselves: their files are named as what they test, and they patch no private name."""

import ast
import pathlib
import re

import fairseq_specdec

TESTS = pathlib.Path(__file__).resolve().parent
PACKAGE = pathlib.Path(fairseq_specdec.__path__[0]).resolve()
# Folders whose files are about pages, random input, a GPU, the authors' files; the names say which.
ABOUT_OTHERS = {"docs", "fuzz", "gpu", "legacy"}
# What a user sees of a command, whatever modules it runs.
COMMAND = "_cli"
# Files about behaviour or data that no one module has.
EXCEPTIONS = {
    "acceptance/test_blockwise_rules.py": "the rules of Stern et al. 2018 and their flags",
    "bench/test_bench_sections.py": "the columns that split an iteration's time",
    "checkpoints/test_checkpoint_readers.py": "whatever reads a checkpoint reads it safely",
    "decoding/test_exactness.py": "lossless decoding of every verifier says what stock says",
    "decoding/test_hostile.py": "the same on odd input",
    "decoding/test_parity.py": "drafters, rules and beams on every backend",
    "decoding/test_poisoned.py": "the same with weights that are no numbers",
    "decoding/test_properties.py": "the same on random models and flags",
    "decoding/test_threads.py": "the same in several threads",
    "commands/test_mistakes.py": "what users do wrong, and what every command then says",
    "scripts/test_configs.py": "the YAML files of configs",
    "scripts/test_environment.py": "README's two commands, and the gate",
}


def module_names(root):
    """Names for the test file of each module and folder below ``root``.

    ``engine/eager/linear.py`` may be ``linear``, ``eager_linear`` or ``engine_eager_linear``: where
    two modules share a name, one of the longer ones tells them apart.
    """
    names = set()
    for path in [*root.rglob("*.py"), *(path for path in root.rglob("*") if path.is_dir())]:
        parts = (root.name, *path.relative_to(root).with_suffix("").parts)
        names |= {"_".join(parts[first:]) for first in range(len(parts))}
    return names


def is_named(stem, package, names):
    """Whether a file of tests, less its ``test_``, is named as the package or one of its modules.

    What follows the name of a module says which side of it is tested.
    """
    return stem == package or any(f"{stem}_".startswith(f"{name}_") for name in names - {package})


def test_every_file_is_named_as_what_it_tests():
    wrong = []
    for path in sorted(TESTS.glob("*/test_*.py")):
        package = path.parent.name
        if package in ABOUT_OTHERS or path.stem.endswith(COMMAND):
            continue
        beside = package in ("scripts", "benchmarks")
        root = (TESTS.parent if beside else PACKAGE) / package
        known = is_named(path.stem[len("test_") :], package, module_names(root))
        listed = f"{package}/{path.name}" in EXCEPTIONS
        assert not (known and listed), f"{path.name} is no exception any more"
        if not known and not listed:
            wrong.append(f"tests/{package}/{path.name}: no such module in {root.name}")
    assert not wrong, "\n".join(wrong)


def test_no_two_files_have_one_name():
    """pytest imports them by their names, whatever the folder."""
    names = [path.name for path in TESTS.rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_no_file_of_tests_imports_another():
    """What two share stands in a file of its own: a deleted case takes no other file with it."""
    imports = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if re.search(r"^(?:from|import) test_\w+", path.read_text(encoding="utf-8"), re.M)
    }
    assert not imports


def test_exceptions_exist():
    assert all((TESTS / name).exists() for name in EXCEPTIONS)
    assert all((TESTS / name).is_dir() for name in ABOUT_OTHERS)


# ---- private names -----------------------------------------------------------------------------

PATCHING = {"setattr", "delattr", "object", "patch", "multiple"}


def is_private(name):
    return name.startswith("_") and not name.endswith("__")


def private_names(node):
    """The private names of an expression: in ``a._b.c``, and in the string ``"a._b"``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from filter(is_private, node.value.split("."))
    while isinstance(node, ast.Attribute):
        yield from filter(is_private, [node.attr])
        node = node.value


def private_patches(source):
    """'line: name' for what is patched under a private name, by ``monkeypatch`` or ``mock``."""
    patches = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        function = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if function not in PATCHING:
            continue
        for argument in node.args[:2]:
            patches += [f"{node.lineno}: {name}" for name in private_names(argument)]
    return patches


def test_no_test_patches_a_private_name():
    patches = []
    for path in sorted(TESTS.rglob("*.py")):
        if path != pathlib.Path(__file__).resolve():
            for line in private_patches(path.read_text(encoding="utf-8")):
                patches.append(f"{path.relative_to(TESTS)}:{line}")
    assert not patches, "\n".join(patches)
