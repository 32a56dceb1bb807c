"""Files that are either whole or absent, and the error that every room of ``data`` raises."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import time
from typing import IO, Any, Callable, Dict, Optional

PIECE = 1 << 20  # bytes read at a time


class DistillError(Exception):
    """A mistake of the caller or a fault of the data; names the flag or file and the remedy."""


def sha256(path: str) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for piece in iter(lambda: stream.read(PIECE), b""):
            digest.update(piece)
    return digest.hexdigest()


def digest_of(value: Any) -> str:
    """The SHA-256 of a JSON-serialisable value, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("utf-8")).hexdigest()


def own_suffix() -> str:
    """A file name ending that nobody else uses, nor an earlier process with the same number."""
    return f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}"


def sync(path: str) -> None:
    """Force a file, or the entries of a directory, onto the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock_file(path: str, wait: bool = False, create: bool = True) -> int:
    """A descriptor of the file of this name, locked for this process alone.

    Args:
        path: of the file.
        wait: until its owner has let it go.
        create: it, where there is none.

    Raises:
        BlockingIOError: another process has it.
        FileNotFoundError: there is none, or no such folder.
        OSError: the file system has no locks.
    """
    while True:
        handle = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            found: Optional[os.stat_result] = os.stat(path)
        except FileNotFoundError:
            found = None
        except BaseException:
            os.close(handle)
            raise
        # The last owner may have renamed or removed it between the two calls: then this is not it.
        if found is not None and os.path.samestat(found, os.fstat(handle)):
            return handle
        os.close(handle)


def unlock(handle: int) -> None:
    """Let it go. Reader processes forked from this one hold it too: closing would not do."""
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


def write_whole(path: str, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a file through a temporary name, so that a kill leaves it whole or absent.

    Args:
        path: the final name; an existing file is replaced in one step.
        write: is handed the open binary file.

    Raises:
        OSError: the disk is full or the folder cannot be written; nothing is left behind.
    """
    temporary = f"{path}.tmp-{own_suffix()}"
    try:
        with open(temporary, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        # Half a file would only take up room, where perhaps there is none left.
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise
    sync(os.path.dirname(os.path.abspath(path)))


def write_json(path: str, value: Dict[str, Any]) -> None:
    """Write ``value`` as indented JSON, whole or not at all."""
    text = json.dumps(value, indent=2, sort_keys=True) + "\n"
    write_whole(path, lambda stream: stream.write(text.encode("utf-8")))


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
