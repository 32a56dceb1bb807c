"""Files that are either whole or absent, also where a process is killed or the disk is full."""

import contextlib
import errno
import json
import os
import uuid
from collections.abc import Iterator
from typing import IO, Any, Union

from fairseq_specdec.errors import UsageError

PathLike = Union[str, "os.PathLike[str]"]


def check_new_file(path: str, flag: str, force: bool = True) -> None:
    """Refuse a path that no file can be written to, before anything is loaded; without ``force``
    also one of a file that is there."""
    folder = os.path.dirname(os.path.abspath(path))
    for refused, problem, remedy in (
        (os.path.isdir(path), "is a directory", "name a file"),
        (_is_special(path), "is no regular file", "name a file"),
        (not os.path.isdir(folder), f"no such directory: {folder}", "make it first"),
        (not os.access(folder, os.W_OK), f"{folder} is read-only", "name another folder"),
        (not force and os.path.lexists(path), "exists", "--force replaces it"),
    ):
        if refused:
            raise UsageError(f"{flag} {path}", problem, remedy)


def _is_special(path: PathLike) -> bool:
    """Whether this is a pipe, a device or a link to one, whose place no file may take."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def sync(path: PathLike) -> None:
    """Force a file, or the entries of a directory, onto the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def replacing(path: PathLike, mode: str = "w", make_folder: bool = False) -> Iterator[IO[Any]]:
    """Open a hidden temporary file beside ``path``; rename it on success, remove it on failure.

    Args:
        path: the final name; an existing file is replaced in one step.
        mode: ``"w"`` for UTF-8 text with line feeds, ``"wb"`` for bytes.
        make_folder: make the folder of ``path`` where it does not exist.

    Raises:
        OSError: the disk is full, the folder cannot be written, or ``path`` is a pipe or a device;
            it names ``path``, and no temporary file is left.
    """
    if _is_special(path):
        raise OSError(errno.EINVAL, "no regular file", os.fspath(path))
    folder, name = os.path.split(os.path.abspath(path))
    if make_folder:
        os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{name}.tmp-{uuid.uuid4().hex}")
    as_text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with open(temporary, mode, **as_text) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):  # half a file would only fill the disk
            os.remove(temporary)
        # torch.save raises a RuntimeError where it closes what could not be written.
        cause = error.__context__ if isinstance(error, RuntimeError) else error
        if isinstance(cause, OSError) and cause.errno and cause.filename in (None, temporary):
            cause.filename = os.fspath(path)
            raise cause from None
        raise
    sync(folder)


def write_text(path: PathLike, text: str, make_folder: bool = False) -> None:
    """Write UTF-8 text whole or not at all; arguments and errors are those of ``replacing``."""
    with replacing(path, "w", make_folder) as stream:
        stream.write(text)


def write_json(path: PathLike, value: Any, make_folder: bool = False) -> None:
    """Write indented JSON whole or not at all, its keys in the order that they have. Raises
    ValueError: a number in it is not finite, which JSON cannot hold."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n", make_folder)


def read_json(path: PathLike) -> dict[str, Any]:
    """Read a JSON object. Raises UsageError: the file holds none."""
    with open(path, encoding="utf-8") as stream:
        try:
            value = json.load(stream)
            if not isinstance(value, dict):
                raise ValueError(f"it holds a {type(value).__name__}")
        except ValueError as error:
            raise UsageError(os.fspath(path), f"no JSON object ({error})", "delete it") from error
    return value
