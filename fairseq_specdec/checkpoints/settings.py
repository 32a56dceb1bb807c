"""The content of a checkpoint is a model with its settings: plain values, those of the file."""

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
    """A file that is no checkpoint, or whose settings could run code; ``field`` is the file."""


def check_structure(state: Any, path: str) -> None:
    """Refuse what is no checkpoint of fairseq. Raises RefusedCheckpointError: names the file, what
    it holds and the remedy."""
    problem = ""
    if not isinstance(state, dict):
        problem = f"holds a {type(state).__name__}, no checkpoint"
    elif not isinstance(state.get("model"), dict) or not state["model"]:
        problem = "holds no model"
    elif state.get("args") is None and state.get("cfg") is None:
        problem = "has neither args nor cfg"
    else:
        for name in ("model", "task"):
            part = (state.get("cfg") or {}).get(name)
            if not isinstance(part, (type(None), dict, argparse.Namespace)):
                problem = f"its {name} in cfg is a {type(part).__name__}, not settings by name"
    if problem:
        raise RefusedCheckpointError(path, problem, "name a checkpoint that fairseq-train wrote")


def plain_settings(state: Any, path: str) -> Any:
    """A checkpoint's content with its settings (``args``, ``cfg``) rebuilt from plain values.

    Allowed are None, truth values, numbers, text, bytes, lists, tuples, sets, dictionaries,
    ``argparse.Namespace`` and omegaconf's nodes, which become the plain values that they hold.
    Nothing is resolved: text with ``${`` in it is refused, since omegaconf would replace it by
    another setting, by an environment variable (``oc.env``) or by whatever a resolver returns.
    fairseq converts ``args`` by writing each setting into a line of Hydra's grammar, where escapes
    (``"'\\x24{oc.env:HOME}'"``), quoted parts (``"'$' '{oc.env:HOME}'"``) and backslashes
    (``"$\\{oc.env:HOME\\}"``) become interpolations: there every ``$`` is refused, and a backslash
    beside a quotation mark.

    Raises:
        RefusedCheckpointError: names the file and the setting.
    """
    if not isinstance(state, dict):
        return state
    for part, kind in (("args", argparse.Namespace), ("cfg", dict)):
        if state.get(part) is not None:
            settings = _Plain(path, part == "args").of(state[part], part, 0)
            if type(settings) is not kind:
                problem = f"its {part} is a {type(settings).__name__}, not a {kind.__name__}"
                raise RefusedCheckpointError(path, problem, "is it a fairseq checkpoint?")
            state[part] = settings
    return state


class _Plain:
    """Rebuilds the settings of one file, a bounded number of them. ``written``: Hydra reads them
    as lines."""

    def __init__(self, path: str, written: bool) -> None:
        self._path, self._written, self._left = path, written, _MOST

    def _interpolates(self, text: str) -> bool:
        quoted = "\\" in text and ("'" in text or '"' in text)
        return "$" in text or quoted if self._written else "${" in text

    def _refuse(self, problem: str) -> NoReturn:
        raise RefusedCheckpointError(self._path, problem, "do not use it")

    def of(self, value: Any, name: str, depth: int) -> Any:
        """``value`` rebuilt from plain types; ``name`` is the setting's, with dots."""
        self._left -= 1
        if self._left < 0 or depth > _DEPTH:
            self._refuse(f"it has over {_MOST} settings, or some nested over {_DEPTH} deep")
        if type(value) is Node:  # it holds None for a missing value, text for an interpolation
            value = vars(value).get("_val", vars(value).get("_content"))
        kind = type(value)
        if kind in (str, bytes) and self._interpolates(value if kind is str else repr(value)):
            self._refuse(
                f"its setting {name} holds the interpolation {value[:80]!r}, which would be "
                "replaced by another setting or an environment variable"
            )
        if kind in _VALUES:
            return value
        if kind in (list, tuple, set):
            return kind(self.of(item, f"{name}[{i}]", depth + 1) for i, item in enumerate(value))
        if kind is not argparse.Namespace and not isinstance(value, dict):
            self._refuse(f"its setting {name} is a {kind.__module__}.{kind.__qualname__}, no value")
        made = {}
        for key, item in (value if isinstance(value, dict) else vars(value)).items():
            if isinstance(value, dict):
                sound = type(key) in (int, float, bool)
                sound = sound or (type(key) is str and not self._interpolates(key))
            else:
                sound = type(key) is str and key.isidentifier() and not key.startswith("__")
            if not sound:
                what = "interpolation" if "${" in str(key) else "name"
                self._refuse(f"its settings in {name} have the {what} {str(key)[:80]!r}")
            made[key] = self.of(item, f"{name}.{key}", depth + 1)
        return made if isinstance(value, dict) else argparse.Namespace(**made)
