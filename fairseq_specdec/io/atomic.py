"""Files that are either whole or absent, also where a process is killed or the disk is full."""

import contextlib
import errno
import json
import os
import socket
import time
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
        (not force and os.path.lexists(path), "exists", "--force replaces it"),
    ):
        if refused:
            raise UsageError(f"{flag} {path}", problem, remedy)


def _is_special(path: PathLike) -> bool:
    """Whether this is a pipe, a device or a link to one, whose place no file may take."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def own_suffix() -> str:
    """A file name ending that no other process uses, nor an earlier one with the same number."""
    return f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}"


def sync(path: PathLike) -> None:
    """Force a file, or the entries of a directory, onto the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def naming(path: PathLike, temporary: str | None = None) -> Iterator[None]:
    """Give a file's name to the system's errors inside that have none, or that of ``temporary``.

    Python names the file where opening fails, and not where reading, writing or closing does.
    """
    try:
        yield
    except OSError as error:
        if error.errno and error.filename in (None, temporary):
            error.filename = os.fspath(path)
        raise


@contextlib.contextmanager
def replacing(path: PathLike, mode: str = "w", make_folder: bool = False) -> Iterator[IO[Any]]:
    """Open a hidden temporary file beside ``path``; rename it on success, remove it on failure.

    Args:
        path: the final name; an existing file is replaced in one step.
        mode: ``"w"`` for UTF-8 text with line feeds, ``"wb"`` for bytes.
        make_folder: make the folder of ``path`` where it does not exist; otherwise that is an
            error, as where the folder may have been removed by another process.

    Raises:
        OSError: the disk is full, the folder cannot be written, or ``path`` is a pipe or a device;
            it names ``path``, and no temporary file is left.
    """
    if _is_special(path):
        raise OSError(errno.EINVAL, "no regular file", os.fspath(path))
    folder, name = os.path.split(os.path.abspath(path))
    if make_folder:
        os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{name}.tmp-{own_suffix()}")
    as_text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with naming(path, temporary):
            with open(temporary, mode, **as_text) as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
    except BaseException as error:
        # Half a file would only use space on a disk that may be full.
        with contextlib.suppress(OSError):
            os.remove(temporary)
        # torch.save raises an error of its own where it closes what could not be written.
        before = error.__context__ if isinstance(error, RuntimeError) else None
        if isinstance(before, OSError) and before.filename is None:
            before.filename = os.fspath(path)
            raise before from None
        raise
    sync(folder)


def write_bytes(path: PathLike, content: bytes, make_folder: bool = False) -> None:
    """Write a file whole or not at all; arguments and errors as of :func:`replacing`."""
    with replacing(path, "wb", make_folder) as stream:
        stream.write(content)


def write_text(path: PathLike, text: str, make_folder: bool = False) -> None:
    """Write UTF-8 text whole or not at all; arguments and errors as of :func:`replacing`."""
    write_bytes(path, text.encode("utf-8"), make_folder)


def write_json(path: PathLike, value: Any, make_folder: bool = False) -> None:
    """Write ``value`` as indented JSON, its keys in the order that they have. Raises OSError: as
    :func:`replacing`. Raises ValueError: a number in it is not finite, which JSON cannot hold."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n", make_folder)


def read_json(path: PathLike) -> dict[str, Any]:
    """Read a JSON object. Raises ValueError: the file holds none."""
    with open(path, encoding="utf-8") as stream:
        try:
            value = json.load(stream)
        except ValueError as error:
            raise UsageError(os.fspath(path), f"not valid JSON ({error})", "delete it") from error
    if not isinstance(value, dict):
        raise UsageError(os.fspath(path), "not a JSON object", "delete it")
    return value
