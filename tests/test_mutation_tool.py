"""The mutation tool: a mutant is what everyone gets, who imported the function or not."""

import sys
import types

import pytest

pytest.importorskip("tomllib")  # Python 3.11
import mutants  # noqa: E402

SOURCE = '''
import contextlib

LIMIT = 5


def plain(x, more=1):
    return x + more


class Holder:
    best = True

    @property
    def three(self):
        return 3

    @staticmethod
    def half(x):
        return x / 2

    @contextlib.contextmanager
    def opened(self):
        """Says nothing."""
        yield self.three * 2

    def wrong(self):
        raise ValueError("a" + "b")
'''


def module_of(source):
    made = types.ModuleType("made")
    exec(source, vars(made))
    return made


def test_whoever_imported_a_function_gets_the_mutants():
    old = module_of(SOURCE)
    plain, holder = old.plain, old.Holder()
    new = SOURCE.replace("x + more", "x - more").replace("more=1", "more=2")
    new = new.replace("True", "False").replace("return 3", "return 4").replace("x / 2", "x * 2")
    mutants.replace(old, module_of(new.replace("three * 2", "three / 2")))
    assert plain(5) == 3 and holder.best is False and holder.three == 4 and holder.half(3) == 6
    with holder.opened() as places:
        assert places == 2


def test_whoever_imported_a_constant_gets_the_mutants(monkeypatch):
    old, reader, other = module_of(SOURCE), module_of(""), module_of("LIMIT = 7")
    reader.LIMIT = old.LIMIT
    for name, module in (("old", old), ("reader", reader), ("other", other)):
        monkeypatch.setitem(sys.modules, f"made_{name}", module)
    plain = old.plain
    mutants.set_constants(old, module_of(SOURCE.replace("LIMIT = 5", "LIMIT = 6")))
    assert (old.LIMIT, reader.LIMIT, other.LIMIT) == (6, 6, 7) and old.plain is plain


def test_a_result_is_kept_until_its_function_changes():
    first = SOURCE.replace("return 3", "return 4")
    name = mutants.name_of("made.py", SOURCE, first)
    for old, new, kept in (
        ("LIMIT = 5", "LIMIT = 50\nMORE = 6", True),
        ("x / 2", "x / 4", True),
        ("def three", "def others", False),
        ("return 3", "return 3 + 0", False),
    ):
        changed = SOURCE.replace(old, new)
        again = changed.replace("return 3", "return 4")
        assert (mutants.name_of("made.py", changed, again) == name) == kept, new
    assert mutants.name_of("other.py", SOURCE, first) != name
    constant = SOURCE.replace("LIMIT = 5", "LIMIT = 6")
    assert mutants.name_of("made.py", SOURCE, constant) != name


def test_operators_numbers_and_arguments_change_and_messages_do_not():
    pytest.importorskip("libcst")
    pytest.importorskip("mutmut")
    changes = {
        mutants.change(SOURCE, text): inside for text, inside in mutants.mutants_of(SOURCE).items()
    }
    assert changes["return x + more -> return x - more"]
    assert changes["return x / 2 -> return x * 2"] and changes["best = True -> best = False"]
    assert changes["return 3 -> return 4"] and not changes["LIMIT = 5 -> LIMIT = 6"]
    assert not any("raise" in change or "Says" in change for change in changes)
