"""Text that fairseq would pass to ``eval`` is read as a literal, or refused."""

import argparse
import importlib
import pathlib
import re
import sys
import types

import fairseq
import pytest
from fairseq import utils

from fairseq_specdec.compat.literals import (
    NotLiteralError,
    parse_literal,
    parse_settings_as_literals,
)

EVALUATED = {
    "[(512, 3)] * 2 + [(1, 2)]": [(512, 3), (512, 3), (1, 2)],
    "(0.9, -0.98)": (0.9, -0.98),
    "{'a': [1, {'b': None}]}": {"a": [1, {"b": None}]},
    "1e-3 * 2": 2e-3,
    "True": True,
    " 'x' ": "x",
    "2 * (3,) * 2": (3, 3, 3, 3),
    "[0] * 10000": [0] * 10000,
    "[0] * 5000 + [1] * 5000": [0] * 5000 + [1] * 5000,
    "1e15 * 2": 2e15,
}


@pytest.mark.parametrize("text", sorted(EVALUATED))
def test_literals_are_read_as_eval_does(text):
    assert parse_literal(text) == eval(text.strip()) == EVALUATED[text]


@pytest.mark.parametrize(
    "text",
    ["[0] * 10**9", "[0] * 10001", "10**9 * [0]", "(" * 500 + ")" * 500, "", "x", "[1] + 'x'",
     "'x' * 10", "1 - 1", "10**10", "9" * 16 + " * 2", "[1] * 2.5", "{[1]: 2}", "\x00", "1;2",
     "print", "...+1", "([1] * 2, 1)", "[0, 0] * 5001", "1000000000000001 * 2",
     "[0] * 6000 + [0] * 6000", "await x", "yield"],
)  # fmt: skip
def test_what_is_no_literal_is_refused(text):
    with pytest.raises(NotLiteralError, match="is not a literal") as refused:
        parse_literal(text)
    assert str(refused.value).startswith(repr(text[:80]))


def test_modules_loaded_since_are_covered_and_no_others(monkeypatch):
    later, other = types.ModuleType("fairseq.later"), types.ModuleType("fairseq_later")
    for module in (later, other):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delattr(fairseq, "eval")
    parse_settings_as_literals()
    assert fairseq.eval is later.eval is parse_literal
    assert not hasattr(other, "eval") and not hasattr(argparse, "eval")


@pytest.mark.parametrize("value", [b"1", 1, None, compile("1", "x", "eval")])
def test_only_text_is_parsed(value):
    with pytest.raises(TypeError):
        parse_literal(value)
    assert utils.eval_bool(value, default="as stock") == "as stock" or value is None


def test_every_eval_in_fairseq_reads_literals():
    """No module of fairseq that evaluates text keeps Python's eval; none uses exec or compile."""
    root, modules = pathlib.Path(fairseq.__file__).parent, []
    for path in root.rglob("*.py"):
        called = set(re.findall(r"(?<![\w.])(eval|exec|compile|__import__)\(", path.read_text()))
        if "examples" in path.parts:
            continue  # imported by a --user-dir only
        assert called <= {"eval"}, path
        if called:
            modules.append(".".join(path.relative_to(root.parent).with_suffix("").parts))
    assert len(modules) > 10
    for module in modules:
        assert importlib.import_module(module).eval is parse_literal, module
