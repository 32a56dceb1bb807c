"""The JSON files that the modules of ``data`` read back."""

from __future__ import annotations

import json
from typing import Any, Dict


def read_json(path: str) -> Dict[str, Any]:
    """Read a JSON object; ValueError: names the file when it is none."""
    try:
        with open(path, encoding="utf-8") as stream:
            value = json.load(stream)
    except ValueError as error:
        raise ValueError(f"{path}: not valid JSON ({error}); delete it") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}: not a JSON object; delete it")
    return value
