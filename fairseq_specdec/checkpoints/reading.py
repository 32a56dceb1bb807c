"""Reading checkpoints: names are checked first, then torch makes tensors and plain records."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import io
import os
import pickletools
import struct
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from typing import IO, Any

import torch

from fairseq_specdec.engine.native.packed_file import KEY
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import naming
from fairseq_specdec.io.contents import check_content

from .allowed import allowed, finished, names
from .settings import RefusedCheckpointError, plain_settings
from .structure import check_structure

_ALIGNMENT = 64  # of records, as torch.save writes them
_LARGE = 1 << 20  # bytes
_PICKLES = 5  # of a file before torch 1.6
_DAMAGED = ("central directory", "zip file", "Bad CRC", "EOF", "exhausted", "remain", "opcode")

_mapping: contextvars.ContextVar[bool] = contextvars.ContextVar("_mapping", default=False)
_loading = threading.RLock()  # torch has one list of names for all threads
_names = functools.lru_cache(maxsize=1)(names)


@contextlib.contextmanager
def weights_mapped() -> Iterator[None]:
    """Tensors of checkpoints read inside are mapped: their memory is the file's. Whoever keeps one
    depends on the file."""
    token = _mapping.set(True)
    try:
        yield
    finally:
        _mapping.reset(token)


def check_regular(path: Any) -> None:
    """Refuse what is no checkpoint by its kind or first bytes, and is not to be opened: a folder, a
    pipe or device, a web page, a pointer of Git LFS."""
    if os.path.isdir(path):
        raise UsageError(path, "is a folder", "name a checkpoint, such as checkpoint_best.pt in it")
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(path, "is no regular file", "name a checkpoint")
    check_content(path, "a checkpoint")


def load_pickle(file: Any) -> Any:
    """Content of a file that ``torch.save`` wrote, on the CPU; nothing that it names is imported.

    Args:
        file: a path or an open file.

    Raises:
        RefusedCheckpointError: it names what no checkpoint holds, or is damaged; in one line.
        OSError: it cannot be read; names the file.
    """
    name = _named(file)
    check_regular(name)
    with naming(name):
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
    if isinstance(file, str):
        with open(file, "rb") as stream:
            zipped, aligned = _checked(stream)
    else:
        zipped, aligned = _checked(file)
        file.seek(0)
    mapped = zipped and aligned and isinstance(file, str) and _mapping.get()
    with _loading:
        before = torch.serialization.get_safe_globals()
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(allowed())
        try:
            made = torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
        finally:
            torch.serialization.clear_safe_globals()
            torch.serialization.add_safe_globals(before)
    return finished(made)


def _checked(stream: IO[bytes]) -> tuple[bool, bool]:
    """Whether a file is zipped, and whether its records may be mapped; nothing is made of it."""
    if stream.read(4) == b"PK\x03\x04":
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
            starts = [
                _start(stream, each) for each in archive.filelist if "/data/" in each.filename
            ]
            return True, not any(start % _ALIGNMENT for start in starts)
    stream.seek(0)
    if tarfile.is_tarfile(stream):
        raise ValueError("it is a tar file")
    stream.seek(0)
    for _ in range(_PICKLES):
        _check_names(stream)
    return False, False


def _pickle_of(archive: zipfile.ZipFile, size: int) -> str:
    """The record of the pickle, in a file whose directory is as ``torch.save`` writes it."""
    entries, listed = archive.infolist(), archive.namelist()
    pickles = [name for name in listed if name.endswith("/data.pkl") and name.count("/") == 1]
    if any(name.split("/")[-1] == "constants.pkl" for name in listed):
        raise ValueError("it is a TorchScript program")
    if any(each.compress_type != zipfile.ZIP_STORED or each.flag_bits & 1 for each in entries):
        raise ValueError("its records are compressed or encrypted")
    if sum(each.file_size for each in entries) > size:
        raise ValueError("its records overlap")
    if len({name.lower() for name in listed}) != len(listed) or len(pickles) != 1:
        raise ValueError("it holds no pickle or several, or two records of the same name")
    return pickles[0]


def _start(stream: IO[bytes], entry: zipfile.ZipInfo) -> int:
    """Where the content of a record begins."""
    stream.seek(entry.header_offset + 26)
    return entry.header_offset + 30 + sum(map(int, struct.unpack("<2H", stream.read(4))))


def _check_names(stream: IO[bytes]) -> None:
    """Refuse a pickle that names what no checkpoint holds. ``stream`` is left after it."""
    for code, argument, _ in pickletools.genops(stream):
        if code.name == "PROTO" and argument != 2:
            raise ValueError(f"its pickle protocol is {argument}; torch.save writes 2")
        if code.name == "GLOBAL" and str(argument).replace(" ", ".", 1) not in _names():
            name = str(argument).replace(" ", ".", 1)
            raise ValueError(f"it names {name}, which no fairseq checkpoint holds; it was not run")
