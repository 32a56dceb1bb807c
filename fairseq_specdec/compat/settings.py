"""The settings in a checkpoint are plain values, and stay those of the file."""

import argparse
import collections
from typing import Any

from fairseq_specdec.errors import UsageError

# Nothing in fairseq's configuration is nested deeper than five, and it has some 600 settings.
_DEPTH = 32
_MOST = 20_000
_VALUES = (type(None), bool, int, float, str, bytes)
_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict)
_SEQUENCES = (list, tuple, set)


class RefusedCheckpointError(UsageError):
    """A checkpoint that is none, or asks for what could run code; ``field`` is the file."""


def plain_settings(state: Any, path: str) -> Any:
    """A checkpoint's content with its settings (``args``, ``cfg``) rebuilt from plain values.

    No other part of it may hold omegaconf's nodes: nothing resolves them there, and nothing needs
    them.

    Allowed are None, truth values, numbers, text, bytes, lists, tuples, sets, dictionaries,
    ``argparse.Namespace`` and omegaconf's nodes, which become the plain values that they hold.
    Nothing is resolved: text with ``${`` in it is refused, since omegaconf would replace it by
    another setting, by an environment variable (``oc.env``) or by whatever a resolver returns.

    Raises:
        RefusedCheckpointError: names the file and the setting.
    """
    if not isinstance(state, dict):
        return state
    for part, kinds in (("args", "an argparse.Namespace"), ("cfg", "a configuration")):
        if state.get(part) is None:
            continue
        settings = _Plain(path).of(state[part], part, 0)
        if type(settings) is not (argparse.Namespace if part == "args" else dict):
            raise RefusedCheckpointError(
                path,
                f"its {part} is a {type(settings).__name__}, not {kinds}",
                "is it a fairseq checkpoint?",
            )
        state[part] = settings
    for part, value in state.items():
        if part not in ("args", "cfg"):
            _check_rest(value, str(part), path)
    return state


def _check_rest(part: Any, name: str, path: str) -> None:
    """Refuse a part of a checkpoint with configurations in it, at any depth."""
    left: list[Any] = [part]
    seen: set[int] = set()
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        module = type(value).__module__
        if module.startswith("omegaconf."):  # a node, or what describes one and may hold others
            raise RefusedCheckpointError(
                path,
                f"its {name} holds a configuration ({type(value).__name__}), which belongs "
                "into its cfg",
                "do not use it",
            )
        if isinstance(value, (*_MAPPINGS, *_SEQUENCES)):
            seen.add(id(value))
            left += value.values() if isinstance(value, _MAPPINGS) else value
        if module.startswith(("fairseq.", "argparse")) or type(value) is collections.OrderedDict:
            seen.add(id(value))
            left += vars(value).values()


def _nodes() -> Any:
    from omegaconf import AnyNode, DictConfig, ListConfig

    return DictConfig, ListConfig, AnyNode


class _Plain:
    """Rebuilds the settings of one file, a bounded number of them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._left = _MOST

    def of(self, value: Any, name: str, depth: int) -> Any:
        """``value`` rebuilt from plain types; ``name`` is the setting's, with dots."""
        path, self._left = self._path, self._left - 1
        if self._left < 0:
            raise RefusedCheckpointError(path, f"it has over {_MOST} settings", "do not use it")
        if depth > _DEPTH:
            raise RefusedCheckpointError(
                path, f"its setting {name[:200]} is nested over {_DEPTH} deep"
            )
        value = _content(value, name, path)
        kind = type(value)
        if kind is str and "${" in value:
            raise RefusedCheckpointError(
                path,
                f"its setting {name} holds the interpolation {value[:80]!r}, which would be "
                "replaced by another setting or an environment variable",
                "save the checkpoint with the value itself, or do not use it",
            )
        if kind in _VALUES:
            return value
        if kind in _SEQUENCES:
            return kind(self.of(item, f"{name}[{i}]", depth + 1) for i, item in enumerate(value))
        if kind is argparse.Namespace:
            return argparse.Namespace(**self._items(vars(value), name, depth, attributes=True))
        if kind in _MAPPINGS:
            return self._items(value, name, depth)
        raise RefusedCheckpointError(
            path,
            f"its setting {name} is a {kind.__module__}.{kind.__qualname__}",
            "settings are text, numbers, lists and dictionaries",
        )

    def _items(
        self, mapping: dict[Any, Any], name: str, depth: int, attributes: bool = False
    ) -> dict[Any, Any]:
        """The entries of a dictionary or Namespace, plain, under plain names."""
        path, made = self._path, {}
        for key, value in mapping.items():
            attribute = type(key) is str and key.isidentifier() and not key.startswith("__")
            if type(key) not in (str, int, float, bool) or (attributes and not attribute):
                raise RefusedCheckpointError(
                    path, f"its settings in {name} have the name {str(key)[:80]!r}"
                )
            if type(key) is str and "${" in key:
                raise RefusedCheckpointError(
                    path, f"its settings in {name} have an interpolation as a name"
                )
            made[key] = self.of(value, f"{name}.{key}", depth + 1)
        return made


def _content(value: Any, name: str, path: str) -> Any:
    """What an omegaconf node holds, read without asking omegaconf, which would resolve it."""
    mapping, sequence, node = _nodes()
    if type(value) in (mapping, sequence):
        content = value.__dict__.get("_content")
        expected = dict if type(value) is mapping else list
        # None for a missing value, text for an interpolation (refused by the caller).
        if content is not None and type(content) not in (expected, str):
            raise RefusedCheckpointError(path, f"its setting {name} is a damaged configuration")
        return content
    if type(value) is node:
        return value.__dict__.get("_val")
    return value
