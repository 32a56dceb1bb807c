"""Reading checkpoints: names are checked first, then torch makes tensors and plain records."""

from __future__ import annotations

import contextlib
import contextvars
import io
import os
import pickletools
import threading
import zipfile
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import torch

from fairseq_specdec.engine.native.packed_file import KEY
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.contents import check_content

from .allowed import NAMES, OURS
from .settings import RefusedCheckpointError, check_structure, plain_settings

_LARGE = 1 << 20  # bytes
_PICKLES = 5  # of a file before torch 1.6
_DAMAGED = ("central directory", "zip file", "Bad CRC", "EOF", "exhausted", "remain", "opcode")

_loading = threading.RLock()  # torch has one list of names for all threads


class Reading(NamedTuple):
    """How checkpoints are read, and models built of them, in a part of the program."""

    path: str | None = None  # whose settings are built from; None: a command line's
    state: Any = None  # its content, once that is known
    ours: bool = False  # whether what is read and built is decoded by this project
    # Packed weights of the files that were read, by their paths; None: models do not only decode.
    packed: dict[str, Any] | None = None
    mapped: bool = False  # as ``weights_mapped``


current = contextvars.ContextVar("current", default=Reading())  # noqa: B039 (it is immutable)


@contextlib.contextmanager
def reading(**values: Any) -> Iterator[None]:
    """``current`` has these values inside."""
    token = current.set(current.get()._replace(**values))
    try:
        yield
    finally:
        current.reset(token)


def weights_mapped() -> contextlib.AbstractContextManager[None]:
    """Tensors of checkpoints read inside are mapped: their memory is the file's. Whoever keeps one
    depends on the file."""
    return reading(mapped=True)


def check_regular(path: Any) -> None:
    """Refuse what is not to be opened, and no checkpoint: a folder, a pipe or a device."""
    if os.path.isdir(path):
        raise UsageError(path, "is a folder", "name a checkpoint, such as checkpoint_best.pt in it")
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(path, "is no regular file", "name a checkpoint")


def load_pickle(file: Any) -> Any:
    """Content of a file that ``torch.save`` wrote, on the CPU; nothing that it names is imported.

    ``file``: a path or an open file. Raises RefusedCheckpointError: it names what no checkpoint
    holds, or is damaged.
    """
    name = _named(file)
    check_regular(name)
    check_content(name, "a checkpoint")
    try:
        return _load(name if os.path.isfile(name) else file)
    except (UsageError, OSError):
        raise
    except Exception as error:  # torch, zipfile and pickletools raise whatever they meet
        text = (str(error).split("WeightsUnpickler error:")[-1].strip().splitlines() or [""])[0]
        if any(each in str(error) for each in _DAMAGED) or not text:
            text = "it is cut off or damaged"
        remedy = "do not use it" if text.startswith("it names") else "is the file complete?"
        problem = f"cannot be read as a checkpoint ({text[:200]})"
        raise RefusedCheckpointError(name, problem, remedy) from error


def load_checkpoint(file: Any) -> Any:
    """``load_pickle`` with settings rebuilt from plain values. Raises also RefusedCheckpointError:
    they hold an interpolation or an object."""
    return plain_settings(load_pickle(file), _named(file))


def load_model(file: Any) -> Any:
    """``load_checkpoint`` of a file that must hold a model. Raises RefusedCheckpointError: it holds
    something else, which is named."""
    state = load_checkpoint(file)
    check_structure(state, _named(file))
    return state


def _named(file: Any) -> str:
    return os.fspath(file) if isinstance(file, os.PathLike) else str(getattr(file, "name", file))


def _load(file: Any) -> Any:
    with open(file, "rb") if isinstance(file, str) else contextlib.nullcontext(file) as stream:
        zipped = _checked(stream)
        stream.seek(0)
    mapped = zipped and isinstance(file, str) and current.get().mapped
    with _loading:
        before = torch.serialization.get_safe_globals()
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals([(ours, name) for name, ours in OURS.items()])
        try:
            state = torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
        finally:
            torch.serialization.clear_safe_globals()
            torch.serialization.add_safe_globals(before)
    _check_fields(state)
    return state


def _check_fields(state: Any) -> None:
    """Refuse dictionaries whose methods are hidden by fields, which torch sets."""
    left, seen = [state], set()
    while left:
        each = left.pop()
        if isinstance(each, (dict, list, tuple)) and id(each) not in seen:
            seen.add(id(each))
            left += dict.values(each) if isinstance(each, dict) else each
            if getattr(each, "__dict__", {}).keys() - {"_metadata"}:
                raise ValueError("it holds a dictionary with fields")


def _checked(stream: IO[bytes]) -> bool:
    """Whether a file is zipped; nothing is made of it."""
    if stream.read(4) != b"PK\x03\x04":
        stream.seek(0)
        for _ in range(_PICKLES):
            _check_names(stream)
        return False
    with zipfile.ZipFile(stream) as archive:
        pickled = archive.read(_pickle_of(archive, stream.seek(0, os.SEEK_END)))
        _check_names(io.BytesIO(pickled))
        # Comparing gigabytes of packed numbers with a checksum would take most of a start.
        packed = KEY.encode() in pickled
        for entry in archive.filelist:
            if not packed or entry.file_size < _LARGE:
                with archive.open(entry) as record:
                    while record.read(1 << 20):
                        pass
    return True


def _pickle_of(archive: zipfile.ZipFile, size: int) -> str:
    """The record of the pickle, in a file whose directory is as ``torch.save`` writes it."""
    entries, listed = archive.infolist(), archive.namelist()
    pickles = [name for name in listed if name.endswith("/data.pkl") and name.count("/") == 1]
    if any(each.compress_type != zipfile.ZIP_STORED or each.flag_bits & 1 for each in entries):
        raise ValueError("its records are compressed or encrypted")
    if sum(each.file_size for each in entries) > size:
        raise ValueError("its records overlap")
    if len({name.lower() for name in listed}) != len(listed) or len(pickles) != 1:
        raise ValueError("it holds no pickle or several, or two records of the same name")
    return pickles[0]


def _check_names(stream: IO[bytes]) -> None:
    """Refuse a pickle that names what no checkpoint holds. ``stream`` is left after it."""
    for code, argument, _ in pickletools.genops(stream):
        if code.name == "PROTO" and argument != 2:
            raise ValueError(f"its pickle protocol is {argument}; torch.save writes 2")
        name = str(argument).replace(" ", ".", 1)
        if code.name == "GLOBAL" and name not in NAMES:
            raise ValueError(f"it names {name}, which no fairseq checkpoint holds; it was not run")
