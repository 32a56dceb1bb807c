"""Checkpoint files, read without torch: the zip layout, and the one before torch 1.6."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import io
import os
import struct
import zipfile
from collections.abc import Iterator
from pickle import UnpicklingError
from typing import IO, Any

import torch

from fairseq_specdec.engine.native.packed_file import KEY, parts_of

from .mapping import mapped
from .truncated import check_regular
from .unpickling import Unpickler
from .unpickling_objects import Objects, Storage, StorageKind, require

_MAGIC = 0x1950A86A20F9469CFC6C  # first object of the layout before torch 1.6
_PROTOCOL = 1001  # second
LEAST_MAPPED = 1 << 16  # bytes
_ALIGNMENT = 64  # of records, as torch.save writes them

_mapping: contextvars.ContextVar[bool] = contextvars.ContextVar("_mapping", default=False)


@contextlib.contextmanager
def weights_mapped() -> Iterator[None]:
    """Large tensors of checkpoints read inside are mapped: their memory is the file's, and goes
    with them. Whoever keeps one depends on the file."""
    token = _mapping.set(True)
    try:
        yield
    finally:
        _mapping.reset(token)


@functools.lru_cache(maxsize=1)
def _objects() -> Objects:
    return Objects()


def load_checked(file: Any) -> Any:
    """Content of a checkpoint, on the CPU, made of nothing but what ``Objects`` lists. Raises
    UnpicklingError: it holds something else, or is damaged; nothing of it was run."""
    if isinstance(file, (str, os.PathLike)):
        check_regular(file)
        with open(file, "rb") as stream:
            return load_checked(stream)
    start = file.tell()
    size = file.seek(0, os.SEEK_END) - start
    file.seek(start)
    head = file.read(512)
    file.seek(start)
    if head[257:262] == b"ustar":
        raise UnpicklingError("it is a tar file, no checkpoint")
    zipped = head.startswith(b"PK\x03\x04")
    return _zipped(file, size) if zipped else _Legacy(file, size).load()


def _described(persistent_id: Any, entries: int) -> tuple[torch.dtype, str, int]:
    """(dtype, key, elements) of a storage, from the file's description of it."""
    require(
        type(persistent_id) is tuple and len(persistent_id) == entries, "a reference to no storage"
    )
    word, kind, key, location, count = persistent_id[:5]
    require(word == "storage" and type(kind) is StorageKind, "a reference to no storage")
    require(type(key) is str and type(location) is str, "a storage without name")
    require(type(count) is int and count >= 0, "a storage of odd size")
    require(persistent_id[5:] in ((), (None,)), "a view of a storage")
    return kind.dtype, key, count


def _filled(stream: IO[bytes], dtype: torch.dtype, count: int) -> torch.Tensor:
    """``count`` elements from a stream, [N]."""
    raw = torch.empty(count * torch.empty(0, dtype=dtype).element_size(), dtype=torch.uint8)
    into = memoryview(raw.numpy())  # type: ignore[arg-type]
    done = 0
    while done < len(into):
        read = stream.readinto(into[done:])  # type: ignore[attr-defined]
        if not read:
            raise UnpicklingError("it ends too early")
        done += read
    return raw.clamp_(max=1).view(dtype) if dtype is torch.bool else raw.view(dtype)


def _number_of(file: IO[bytes]) -> int | None:
    """Of an open file, as the system has it; None where there is none."""
    try:
        return file.fileno()
    except (AttributeError, OSError):  # bytes in memory
        return None


class _Records:
    """Storages of a zip file, each read or mapped once.

    Args:
        archive: the open file.
        root: the folder in it that holds all.
        file: the system's number of the file, to map large storages; None to read all.
    """

    def __init__(self, archive: zipfile.ZipFile, root: str, file: int | None = None) -> None:
        self._archive = archive
        self._root = root
        self._file = file
        self._kept: dict[str, tuple[torch.dtype, Storage]] = {}
        self._unchecked: dict[int, zipfile.ZipInfo] = {}  # by the address of what was mapped

    def storage(self, persistent_id: Any) -> Storage:
        dtype, key, count = _described(persistent_id, 5)
        if key not in self._kept:
            entry = self._archive.NameToInfo.get(f"{self._root}/data/{key}")
            if entry is None:
                raise UnpicklingError(f"it lacks a record, {key[:40]!r}")
            needed = count * torch.empty(0, dtype=dtype).element_size()
            if needed != entry.file_size:
                raise UnpicklingError(
                    f"it describes a tensor of {needed} bytes and holds {entry.file_size}"
                )
            flat = self._mapped(entry, dtype, count)
            if flat is None:
                with self._archive.open(entry) as stream:
                    flat = _filled(stream, dtype, count)
            self._kept[key] = (dtype, Storage(flat))
        known, storage = self._kept[key]
        require(known is dtype and storage.flat.numel() == count, "a storage of two kinds")
        return storage

    def _mapped(
        self, entry: zipfile.ZipInfo, dtype: torch.dtype, count: int
    ) -> torch.Tensor | None:
        """A record whose checksum is not checked, [N]; None where it is to be read."""
        if self._file is None or entry.file_size < LEAST_MAPPED or dtype is torch.bool:
            return None
        self._archive.open(entry).close()  # checks its name
        head = os.pread(self._file, 30, entry.header_offset)
        start = entry.header_offset + 30 + sum(struct.unpack("<26x2H", head))
        flat = None if start % _ALIGNMENT else mapped(self._file, start, count, dtype)
        if flat is not None:
            self._unchecked[flat.data_ptr()] = entry
        return flat

    def check(self, but: list[torch.Tensor]) -> None:
        """Compare what was mapped with the checksums, reading it once. ``but``: tensors that may
        differ from them."""
        for part in but:
            self._unchecked.pop(part.data_ptr(), None)
        for entry in self._unchecked.values():
            with self._archive.open(entry) as stream:
                while stream.read(1 << 20):
                    pass


def _zipped(file: IO[bytes], size: int) -> Any:
    try:
        with zipfile.ZipFile(file) as archive:
            root = _root(archive, size)
            pickled = archive.read(f"{root}/data.pkl")
            records = _Records(archive, root, _number_of(file) if _mapping.get() else None)
            stream = io.BytesIO(pickled)
            made = Unpickler(stream, len(pickled), _objects(), records.storage).load()
            # Reading gigabytes to find a flipped bit in a number would take most of the start.
            records.check(parts_of(made.get(KEY)) if type(made) is dict else [])
            return made
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, EOFError) as error:
        raise UnpicklingError(f"it is no sound zip file {str(error)[:200]}".strip()) from error


def _root(archive: zipfile.ZipFile, size: int) -> str:
    """The folder that holds the records."""
    _check_entries(archive.infolist(), size)
    names = archive.namelist()
    roots = [name[: -len("/data.pkl")] for name in names if name.count("/") == 1
             and name.endswith("/data.pkl")]  # fmt: skip
    if len(roots) != 1:
        raise UnpicklingError(f"it holds {len(roots)} pickles named data.pkl")
    order = f"{roots[0]}/byteorder"
    if order in names and archive.read(order) != b"little":
        raise UnpicklingError("it was written on a big-endian machine")
    return roots[0]


def _check_entries(entries: list[zipfile.ZipInfo], size: int) -> None:
    """Refuse records that torch would not have written."""
    names = [entry.filename for entry in entries]
    if any(name.split("/")[-1] == "constants.pkl" for name in names):
        raise UnpicklingError("it is a TorchScript program, no checkpoint")
    if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries):
        raise UnpicklingError("its records are compressed or encrypted")
    if sum(entry.file_size for entry in entries) > size:
        raise UnpicklingError("its records overlap")
    if len({name.lower() for name in names}) != len(names):
        raise UnpicklingError("two of its records have the same name")


class _Legacy:
    """The layout before torch 1.6: five pickles, then the storages one after another."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = self._size = size
        self._kept: dict[str, tuple[torch.dtype, Storage]] = {}

    def load(self) -> Any:
        if self._pickle() != _MAGIC or self._pickle() != _PROTOCOL:
            raise UnpicklingError("it is no checkpoint: its first words are others")
        machine = self._pickle()
        if type(machine) is not dict or machine.get("little_endian") is not True:
            raise UnpicklingError("it was written on a big-endian machine")
        made = self._pickle()
        keys = self._pickle()
        require(type(keys) is list and all(type(key) is str for key in keys), "odd storages")
        require(len(keys) == len(self._kept) and set(keys) == set(self._kept), "odd storages")
        for key in keys:
            dtype, storage = self._kept[key]
            flat = storage.flat
            count = self._file.read(8)
            require(count == flat.numel().to_bytes(8, "little"), "a storage of two sizes")
            flat.copy_(_filled(self._file, dtype, flat.numel()))
        return made

    def _pickle(self) -> Any:
        return Unpickler(self._file, self._size, _objects(), self._storage).load()

    def _storage(self, persistent_id: Any) -> Storage:
        dtype, key, count = _described(persistent_id, 6)
        if key not in self._kept:
            needed = count * torch.empty(0, dtype=dtype).element_size()
            if needed > self._left:
                raise UnpicklingError(
                    f"it describes a tensor of {needed} bytes and holds {self._left} at most"
                )
            self._left -= needed
            self._kept[key] = (dtype, Storage(torch.empty(count, dtype=dtype)))
        known, storage = self._kept[key]
        require(known is dtype and storage.flat.numel() == count, "a storage of two kinds")
        return storage
