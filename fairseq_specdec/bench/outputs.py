"""Result files: whole or absent."""

from __future__ import annotations

import json
import os
from typing import Any, Dict

from fairseq_specdec.data.files import write_whole

from .workload import BenchError

FILES = ("json", "markdown", "html")
FOLDERS = ("plots",)


def check(args: Any) -> None:
    """Refuse, before anything is measured, names under which nothing can be written.

    Args:
        args: the command line.

    Raises:
        BenchError: naming the flag.
    """
    for flag in (*FILES, *FOLDERS):
        path = getattr(args, flag)
        if not path:
            continue
        at = os.path.abspath(path)
        if flag in FILES and os.path.isdir(at):
            raise BenchError(f"--{flag} {path}: is a folder; name a file")
        folder = at if flag in FOLDERS else os.path.dirname(at)
        while not os.path.exists(folder):
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            raise BenchError(f"--{flag} {path}: {folder} is no folder that can be written to")


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
