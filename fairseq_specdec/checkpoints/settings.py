"""The settings in a checkpoint are plain values, and stay those of the file."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from fairseq_specdec.errors import UsageError

from .allowed import Node

# Nothing in fairseq's configuration is nested deeper than five, and it has some 600 settings.
_DEPTH = 32
_MOST = 20_000
_VALUES = (type(None), bool, int, float, str, bytes)


class RefusedCheckpointError(UsageError):
    """A checkpoint that is none, or asks for what could run code; ``field`` is the file."""


def plain_settings(state: Any, path: str) -> Any:
    """A checkpoint's content with its settings (``args``, ``cfg``) rebuilt from plain values.

    Allowed are None, truth values, numbers, text, bytes, lists, tuples, sets, dictionaries,
    ``argparse.Namespace`` and omegaconf's nodes, which become the plain values that they hold.
    Nothing is resolved: text with ``${`` in it is refused, since omegaconf would replace it by
    another setting, by an environment variable (``oc.env``) or by whatever a resolver returns.

    Raises:
        RefusedCheckpointError: names the file and the setting.
    """
    if not isinstance(state, dict):
        return state
    for part, kind in (("args", argparse.Namespace), ("cfg", dict)):
        if state.get(part) is not None:
            settings = _Plain(path).of(state[part], part, 0)
            if type(settings) is not kind:
                problem = f"its {part} is a {type(settings).__name__}, not a {kind.__name__}"
                raise RefusedCheckpointError(path, problem, "is it a fairseq checkpoint?")
            state[part] = settings
    return state


class _Plain:
    """Rebuilds the settings of one file, a bounded number of them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._left = _MOST

    def _refuse(self, problem: str, remedy: str = "do not use it") -> NoReturn:
        raise RefusedCheckpointError(self._path, problem, remedy)

    def of(self, value: Any, name: str, depth: int) -> Any:
        """``value`` rebuilt from plain types; ``name`` is the setting's, with dots."""
        self._left -= 1
        if self._left < 0:
            self._refuse(f"it has over {_MOST} settings")
        if depth > _DEPTH:
            self._refuse(f"its setting {name[:200]} is nested over {_DEPTH} deep")
        if type(value) is Node:  # it holds None for a missing value, text for an interpolation
            value = vars(value).get("_val", vars(value).get("_content"))
        kind = type(value)
        if kind is str and "${" in value:
            self._refuse(
                f"its setting {name} holds the interpolation {value[:80]!r}, which would be "
                "replaced by another setting or an environment variable",
                "save the checkpoint with the value itself, or do not use it",
            )
        if kind in _VALUES:
            return value
        if kind in (list, tuple, set):
            return kind(self.of(item, f"{name}[{i}]", depth + 1) for i, item in enumerate(value))
        if kind is argparse.Namespace:
            return argparse.Namespace(**self._items(vars(value), name, depth, attributes=True))
        if isinstance(value, dict):
            return self._items(value, name, depth)
        self._refuse(
            f"its setting {name} is a {kind.__module__}.{kind.__qualname__}",
            "settings are text, numbers, lists and dictionaries",
        )

    def _items(
        self, mapping: dict[Any, Any], name: str, depth: int, attributes: bool = False
    ) -> dict[Any, Any]:
        """The entries of a dictionary or Namespace, plain, under plain names."""
        made = {}
        for key, value in mapping.items():
            text = type(key) is str
            attribute = text and key.isidentifier() and not key.startswith("__")
            sound = attribute if attributes else type(key) in (str, int, float, bool)
            if text and "${" in key:
                self._refuse(f"its settings in {name} have an interpolation as a name")
            if not sound:
                self._refuse(f"its settings in {name} have the name {str(key)[:80]!r}")
            made[key] = self.of(value, f"{name}.{key}", depth + 1)
        return made
