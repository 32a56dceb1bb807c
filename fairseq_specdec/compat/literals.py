"""Settings that fairseq passes to ``eval`` are read as literals."""

import ast
import operator
import sys
from typing import Any

import fairseq  # noqa: F401  (loads every model, task, optimizer and criterion)

from .patch import fixes

# More elements than any setting has; "[0] * 10**9" is refused before it is made.
_MOST = 10_000

_OPERATORS: dict[type, Any] = {ast.Add: operator.add, ast.Mult: operator.mul}


class NotLiteralError(ValueError):
    """A setting is more than a literal."""

    def __init__(self, text: str) -> None:
        said = f"{text[:80]!r} is not a literal (a number, text, list, tuple or dictionary)"
        super().__init__(f"{said}; fairseq would run it as Python")


@fixes()
def parse_settings_as_literals() -> None:
    """Give every loaded module of fairseq an ``eval`` that parses literals and runs nothing.

    Fault: fairseq passes settings to ``eval``: ``utils.eval_str_list`` (the Transformer's
    ``adaptive_softmax_cutoff``), ``utils.eval_str_dict`` (``xformers_att_config``),
    ``utils.eval_bool``, and direct calls in models, optimizers, criterions and datasets. A
    checkpoint of plain strings can run a command there, however safely it was unpickled.
    Versions: all.

    A module's own name ``eval`` is found before the built-in one, so that no function of fairseq
    is replaced, also where another module imported it by name. Calling this again covers modules
    loaded since.
    """
    for name, module in list(sys.modules.items()):
        if name == "fairseq" or name.startswith("fairseq."):
            module.eval = parse_literal  # type: ignore[attr-defined]


def parse_literal(text: Any) -> Any:
    """The value of a Python literal, or of a sum or product of literal lists, tuples and numbers.

    ``[(512, 3)] * 20`` is how fairseq writes the layers of a convolutional model.

    Raises:
        TypeError: not a string (as the built-in ``eval``, which fairseq relies on).
        NotLiteralError: anything but a literal; nothing of it was run.
    """
    if type(text) is not str:
        raise TypeError(f"eval() arg 1 must be a string, not {type(text).__name__}")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise NotLiteralError(text) from error


def _value(node: ast.expr) -> Any:
    """Value of a literal, or of literals that are added or multiplied, of a sensible size."""
    if not isinstance(node, ast.BinOp) or type(node.op) not in _OPERATORS:
        return ast.literal_eval(node)
    left, right, times = _value(node.left), _value(node.right), type(node.op) is ast.Mult
    if times and type(left) is int:
        left, right = right, left
    if type(left) in (list, tuple):
        sound = type(right) is (int if times else type(left))
        sound = sound and (len(left) * right if times else len(left) + len(right)) <= _MOST
    else:
        sound = {type(left), type(right)} <= {int, float} and max(abs(left), abs(right)) <= 1e15
    if not sound:
        raise ValueError("too long, or no number, list or tuple")
    return _OPERATORS[type(node.op)](left, right)
