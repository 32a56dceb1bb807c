"""Result files: whole or absent."""

from __future__ import annotations

import json
import os
from typing import Any, Dict

from fairseq_specdec.data.files import write_whole


def write_text(path: str, text: str) -> None:
    """Write a text file as ``write_bytes`` does."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str, content: bytes) -> None:
    """Write a file through a temporary name; its folder is made if need be."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    write_whole(path, lambda stream: stream.write(content))


def write_json(path: str, value: Dict[str, Any]) -> None:
    """Write ``value`` as JSON, its keys in the order that they have."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
