"""Settings that fairseq passes to ``eval`` are read as literals."""

import ast
import operator
import sys
from collections.abc import Callable
from typing import Any

# More elements than any setting has; "[0] * 10**9" is refused before it is made.
_MOST = 10_000

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {ast.Add: operator.add, ast.Mult: operator.mul}


class NotLiteralError(ValueError):
    """A setting is more than a literal."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text[:80]!r} is not a literal (a number, text, list, tuple or "
            "dictionary); fairseq would run it as Python"
        )
        self.text = text


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
    import fairseq  # noqa: F401  (loads every model, task, optimizer and criterion)

    for name, module in list(sys.modules.items()):
        if name == "fairseq" or name.startswith("fairseq."):
            module.eval = parse_literal  # type: ignore[attr-defined]


def parse_literal(text: Any) -> Any:
    """The value of a Python literal; of operators only ``+`` and ``*`` of lists, tuples, numbers.

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


def _value(node: ast.AST) -> Any:
    """Value of a node of one of the kinds below; ``ast.literal_eval`` reads the leaves."""
    if isinstance(node, (ast.List, ast.Tuple)):
        kind = list if isinstance(node, ast.List) else tuple
        return kind(_value(element) for element in node.elts)
    if isinstance(node, ast.Dict):
        if None in node.keys:  # {**other}
            raise ValueError("unpacking")
        return {_value(key): _value(value) for key, value in zip(node.keys, node.values) if key}
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _combined(type(node.op), _value(node.left), _value(node.right))
    return ast.literal_eval(node)  # type: ignore[arg-type]


def _combined(kind: type, left: Any, right: Any) -> Any:
    """Sum or product of two literals, if it is a number, list or tuple of a sensible size."""
    sides: tuple[type, type] = (type(left), type(right))
    numbers = [side in (int, float) for side in sides]
    sequences = [side in (list, tuple) for side in sides]
    if kind is ast.Mult and any(sequences):
        count, sequence = (left, right) if sequences[1] else (right, left)
        if type(count) is not int or count * len(sequence) > _MOST:
            raise ValueError("too long")
    elif all(sequences):
        if len(left) + len(right) > _MOST:
            raise ValueError("too long")
    elif not all(numbers) or max(abs(left), abs(right)) > 1e15:
        raise ValueError("not a number, list or tuple")
    return _OPERATORS[kind](left, right)
