"""The mutation tool: a mutant is what everyone gets, who imported the function or not."""

import json
import sys
import time
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
    with holder.opened() as found:
        assert found == 2


def test_whoever_imported_a_constant_gets_the_mutants(monkeypatch):
    old, reader, other = module_of(SOURCE), module_of(""), module_of("LIMIT = 7")
    reader.LIMIT = old.LIMIT
    for name, module in (("old", old), ("reader", reader), ("other", other)):
        monkeypatch.setitem(sys.modules, f"made_{name}", module)
    plain = old.plain
    mutants.set_constants(old, module_of(SOURCE.replace("LIMIT = 5", "LIMIT = 6")))
    assert (old.LIMIT, reader.LIMIT, other.LIMIT) == (6, 6, 7) and old.plain is plain


def test_a_change_is_told_in_a_line():
    other = SOURCE.replace("return 3", "return 4")
    assert mutants.change(SOURCE, other) == "return 3 -> return 4"


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
    found = {
        mutants.change(SOURCE, text): inside for text, inside in mutants.mutants_of(SOURCE).items()
    }
    assert found["return x + more -> return x - more"]
    assert found["return x / 2 -> return x * 2"] and found["best = True -> best = False"]
    assert found["return 3 -> return 4"] and not found["LIMIT = 5 -> LIMIT = 6"]
    assert not any("raise" in change or "Says" in change for change in found)


def told_of(folder, number, survived, tests):
    """A line of results: three gives this number."""
    text = SOURCE.replace("return 3", f"return {number}")
    found = {"key": mutants.name_of("m.py", SOURCE, text), "survived": survived, "tests": tests}
    with open(folder / "mutants.jsonl", "a", encoding="utf-8") as stream:
        stream.write(json.dumps(found) + "\n")


def returning(*numbers, source=SOURCE):
    """The module, mutated so that three gives one of these."""
    texts = {source.replace("return 3", f"return {n}"): True for n in numbers}
    return mutants.Task([], source, "tests", texts)


def test_the_table_is_of_results_that_hold(tmp_path):
    for one in ((4, False, "old"), (5, True, "tests"), (6, True, "old"), (7, True, "tests")):
        told_of(tmp_path, *one)
    found = mutants.Results(tmp_path / "mutants.jsonl")
    lines, survivors = mutants.report({"m.py": returning(*range(4, 9))}, found)
    # One was not run, and one survived other tests.
    assert lines[2:] == ["| `` | 5 | 3 | 1 | 2 | 2 |", "| `all` | 5 | 3 | 1 | 2 | 2 |"]
    assert survivors == ["m.py: return 3 -> return 5", "m.py: return 3 -> return 7"]


def test_a_fork_gives_its_status_back_or_runs_out_of_time():
    assert mutants.forked(60, int, 7) == 7
    assert mutants.forked(60, int, "no number") == 1
    assert mutants.forked(0.2, time.sleep, 60) is None
