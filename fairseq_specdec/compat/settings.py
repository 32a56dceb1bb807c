"""The settings in a checkpoint are plain values, and stay what the file says."""

from __future__ import annotations

import argparse
import collections
from typing import Any, Dict

# Nothing in fairseq's configuration is nested deeper than five.
_DEPTH = 32
_VALUES = (type(None), bool, int, float, str, bytes)
_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict)
_SEQUENCES = (list, tuple, set)


class RefusedCheckpointError(ValueError):
    """A checkpoint asks for what could run code; the message names the file and the setting."""


def plain_settings(state: Any, path: str) -> Any:
    """A checkpoint's content with its settings (``args``, ``cfg``) rebuilt from plain values.

    Allowed are None, truth values, numbers, text, bytes, lists, tuples, sets, dictionaries,
    ``argparse.Namespace`` and omegaconf's nodes, which become the plain values that they hold.
    Nothing is resolved: text with ``${`` in it is refused, since omegaconf would replace it by
    another setting, by an environment variable (``oc.env``) or by whatever a resolver returns.

    Args:
        state: what was unpickled; changed in place where it is a dictionary.
        path: the file, for messages.

    Raises:
        RefusedCheckpointError: names the file and the setting.
    """
    if not isinstance(state, dict):
        return state
    for part, kinds in (("args", "an argparse.Namespace"), ("cfg", "a configuration")):
        if state.get(part) is None:
            continue
        settings = _plain(state[part], part, path, 0)
        if type(settings) is not (argparse.Namespace if part == "args" else dict):
            raise RefusedCheckpointError(
                f"{path}: its {part} is a {type(settings).__name__}, not {kinds}; "
                "is it a fairseq checkpoint?"
            )
        state[part] = settings
    return state


def _plain(value: Any, name: str, path: str, depth: int) -> Any:
    """``value`` rebuilt from plain types; ``name`` is the setting's, with dots."""
    if depth > _DEPTH:
        raise RefusedCheckpointError(
            f"{path}: its setting {name[:200]} is nested over {_DEPTH} deep"
        )
    value = _content(value, name, path)
    kind = type(value)
    if kind is str and "${" in value:
        raise RefusedCheckpointError(
            f"{path}: its setting {name} holds the interpolation {value[:80]!r}, which would be "
            "replaced by another setting or an environment variable; save the checkpoint with "
            "the value itself, or do not use it"
        )
    if kind in _VALUES:
        return value
    if kind in _SEQUENCES:
        return kind(_plain(item, f"{name}[{i}]", path, depth + 1) for i, item in enumerate(value))
    if kind is argparse.Namespace:
        return argparse.Namespace(**_items(vars(value), name, path, depth, attributes=True))
    if kind in _MAPPINGS:
        return _items(value, name, path, depth)
    raise RefusedCheckpointError(
        f"{path}: its setting {name} is a {kind.__module__}.{kind.__qualname__}; "
        "settings are text, numbers, lists and dictionaries"
    )


def _content(value: Any, name: str, path: str) -> Any:
    """What an omegaconf node holds, read without asking omegaconf, which would resolve it."""
    from omegaconf import AnyNode, DictConfig, ListConfig

    if type(value) in (DictConfig, ListConfig):
        content = value.__dict__.get("_content")
        expected = dict if type(value) is DictConfig else list
        # None for a missing value, text for an interpolation (refused by the caller).
        if content is not None and type(content) not in (expected, str):
            raise RefusedCheckpointError(f"{path}: its setting {name} is a damaged configuration")
        return content
    if type(value) is AnyNode:
        return value.__dict__.get("_val")
    return value


def _items(
    mapping: Dict[Any, Any], name: str, path: str, depth: int, attributes: bool = False
) -> Dict[Any, Any]:
    """The entries of a dictionary or Namespace, plain, under plain names."""
    found: Dict[Any, Any] = {}
    for key, value in mapping.items():
        attribute = type(key) is str and key.isidentifier() and not key.startswith("__")
        if type(key) not in (str, int, float, bool) or (attributes and not attribute):
            raise RefusedCheckpointError(
                f"{path}: its settings in {name} have the name {str(key)[:80]!r}"
            )
        if type(key) is str and "${" in key:
            raise RefusedCheckpointError(
                f"{path}: its settings in {name} have an interpolation as a name"
            )
        found[key] = _plain(value, f"{name}.{key}", path, depth + 1)
    return found
