"""The error that every module of ``data`` raises, and the JSON files that they read back."""

from __future__ import annotations

import json
from typing import Any, Dict


class DistillError(Exception):
    """A mistake of the caller or a fault of the data; names the flag or file and the remedy."""


def read_json(path: str) -> Dict[str, Any]:
    """Read a JSON object; :class:`DistillError` names the file when it is none."""
    try:
        with open(path, encoding="utf-8") as stream:
            value = json.load(stream)
    except ValueError as error:
        raise DistillError(f"{path}: not valid JSON ({error}); delete it") from error
    if not isinstance(value, dict):
        raise DistillError(f"{path}: not a JSON object; delete it")
    return value
