"""Checkpoints whose settings are programs."""

from __future__ import annotations

import argparse
import ast
from typing import Any, Iterator, Tuple

from .patch import wrap_once

# Free text, which fairseq evaluates nowhere: file names may hold parentheses.
_FREE = ("data", "path", "dir", "file", "logdir", "prefix", "pref", "from", "project", "filename")


def refuse_settings_that_are_programs() -> None:
    """Refuse checkpoints among whose settings is an expression that calls something.

    Fault: fairseq's models pass settings to ``eval`` as they are built (the Transformer its
    ``adaptive_softmax_cutoff`` and ``xformers_att_config``, other architectures more), so that a
    checkpoint of plain strings can run a command however safely it was unpickled. Versions: all.
    """
    from fairseq import checkpoint_utils

    fix = "refuse_settings_that_are_programs"
    wrap_once(checkpoint_utils, "load_checkpoint_to_cpu", fix, _load)


def _load(original: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
    state = original(path, *args, **kwargs)
    for part in ("args", "cfg"):
        for name, text in _strings(part, state.get(part)):
            if not name.lower().endswith(_FREE) and calls_something(text):
                raise ValueError(
                    f"{path}: its setting {name} is a program, {text[:80]!r}, which fairseq would "
                    "run; take checkpoints from sources that you trust"
                )
    return state


def _strings(name: str, value: Any) -> Iterator[Tuple[str, str]]:
    """Every string in the settings, with the name it stands under."""
    from omegaconf import OmegaConf

    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value, resolve=False)
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _strings(str(key), inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _strings(name, inner)


def calls_something(text: str) -> bool:
    """Whether a string, evaluated as Python, would call a function."""
    if "(" not in text:
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return False
    except (ValueError, RecursionError, MemoryError):
        return True  # no setting looks like that
    return any(isinstance(node, ast.Call) for node in ast.walk(tree))
