"""Settings of a checkpoint in the layout of fairseq 0.10 and before hold no interpolation, ever."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import re
from typing import Any, FrozenSet, Iterator, Tuple

from .patch import wrap_once
from .settings import RefusedCheckpointError

_FIX = "refuse_interpolations_of_checkpoints"
# The checkpoint whose settings are being converted; None for a command line's.
_converting: contextvars.ContextVar[Any] = contextvars.ContextVar("_converting", default=None)
_read: contextvars.ContextVar[str] = contextvars.ContextVar("_read", default="the checkpoint")


def refuse_interpolations_of_checkpoints() -> None:
    """Look for interpolations where nothing changes settings any more, before one is resolved.

    Fault: fairseq converts a checkpoint's Namespace by writing each setting into a line of Hydra's
    grammar. Text that holds no interpolation becomes one there: ``ast.literal_eval`` and Hydra
    replace escapes (``"'\\x24{oc.env:HOME}'"``), join quoted parts (``"'$' '{oc.env:HOME}'"``) and
    drop backslashes (``"$\\{oc.env:HOME\\}"``). Then omegaconf resolves it. Versions: all.

    What Hydra composes may hold the interpolations that fairseq's own dataclasses have as defaults,
    under the same names, and no others; what fairseq makes of it may hold none. The command line's
    own settings are resolved as ever.
    """
    from fairseq import checkpoint_utils
    from fairseq.dataclass import utils

    wrap_once(checkpoint_utils, "load_checkpoint_to_cpu", _FIX, _note)
    wrap_once(checkpoint_utils, "convert_namespace_to_omegaconf", _FIX, _convert)
    wrap_once(utils, "compose", _FIX, _compose)


def _note(original: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
    _read.set(str(path))
    return original(path, *args, **kwargs)


def _convert(original: Any, args: Any) -> Any:
    with _within(_read.get()):
        cfg = original(args)
    _check(cfg, frozenset(), _read.get())
    return cfg


@contextlib.contextmanager
def _within(path: str) -> Iterator[None]:
    token = _converting.set(path)
    try:
        yield
    finally:
        _converting.reset(token)


def _compose(original: Any, *args: Any, **kwargs: Any) -> Any:
    path = _converting.get()
    if path is not None:
        _check_groups(kwargs.get("overrides", ()), path)
    cfg = original(*args, **kwargs)
    if path is not None:
        _check(cfg, _of_fairseq(), path)
    return cfg


def _check_groups(overrides: Any, path: str) -> None:
    """Refuse a group's choice (``bpe=...``) that is no name: Hydra resolves it as it composes."""
    for override in overrides:
        group, _, choice = override.partition("=")
        if "." not in group and not re.match(r"[\w-]*\Z", choice):
            raise RefusedCheckpointError(
                f"{path}: its setting {group} is {choice[:80]!r}, which is no name and may become "
                "an interpolation; do not use this checkpoint"
            )


def _of_fairseq() -> FrozenSet[Tuple[str, str]]:
    """(name, text) of the interpolations among the defaults of fairseq's dataclasses."""
    from fairseq.dataclass import FairseqDataclass

    found, left = set(), [FairseqDataclass]
    while left:
        each = left.pop()
        left += each.__subclasses__()
        for field in dataclasses.fields(each):
            if type(field.default) is str and "${" in field.default:
                found.add((field.name, field.default))
    return frozenset(found)


def _check(cfg: Any, known: FrozenSet[Tuple[str, str]], path: str) -> None:
    for name, text in _texts(cfg, ""):
        if "${" in text and (name.rpartition(".")[2], text) not in known:
            raise RefusedCheckpointError(
                f"{path}: its setting {name} becomes the interpolation {text[:80]!r}; save the "
                "checkpoint with the value itself, or do not use it"
            )


def _texts(node: Any, name: str) -> Iterator[Tuple[str, str]]:
    """(name, text) of all texts of a configuration or of plain containers; nothing is resolved."""
    fields = vars(node) if hasattr(node, "__dict__") else {}
    if "_metadata" in fields:  # of omegaconf: a container, or a node with a value
        node = fields["_content"] if "_content" in fields else fields.get("_val")
    elif type(node).__name__ == "Namespace":
        node = fields
    if type(node) is str:
        yield name, node
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from _texts(value, f"{name}.{key}" if name else str(key))
    elif isinstance(node, (list, tuple)):
        for i, value in enumerate(node):
            yield from _texts(value, f"{name}[{i}]")
