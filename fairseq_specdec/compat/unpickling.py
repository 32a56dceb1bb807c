"""Reading checkpoints on torch < 2.10 by the list of types that later ones are held to."""

from __future__ import annotations

import _compat_pickle
import os
import pickle
import struct
import tarfile
import types
import zipfile
from typing import IO, Any, Dict, Iterable, Optional, Tuple

import torch

# What torch >= 2.6 reads without being asked and torch 1.13's own list lacks.
_MORE = (
    "torch.bool",
    "torch.uint8",
    "torch.bfloat16",
    "torch._utils._rebuild_device_tensor_from_numpy",
)


def allowed(entries: Iterable[Any]) -> Dict[str, Any]:
    """Objects that a checkpoint may name, by the name in the file.

    Args:
        entries: objects or ``(object, name)``, as ``checkpoint_types`` gives them.
    """
    import _codecs

    from torch import _weights_only_unpickler

    found: Dict[str, Any] = dict(_weights_only_unpickler._get_allowed_globals())  # type: ignore
    for name in _MORE:
        owner: Any = torch
        for part in name.split(".")[1:]:
            owner = getattr(owner, part, None)
        if owner is not None:
            found[name] = owner
    found["_codecs.encode"] = _codecs.encode  # numpy's bytes in pickles of protocol 2
    for thing in (set, bytearray, complex):
        found[f"builtins.{thing.__name__}"] = thing
    for entry in entries:
        thing, name = entry if isinstance(entry, tuple) else (entry, None)
        if name is None:
            name = f"{thing.__module__}.{thing.__qualname__}"
        found[name] = thing
    return found


class CheckedUnpickler(pickle._Unpickler):
    """Python's unpickler with the risky instructions held to a list.

    Class attributes:
        names: what may be named, called and, where it is a class, have its state set.
        sizes: bytes of each record of a zip file; None for another file.
        file_size: bytes of the file.
    """

    names: Any = {}
    sizes: Optional[Dict[str, int]] = None
    file_size = 0
    dispatch: Any = dict(pickle._Unpickler.dispatch)  # type: ignore

    def load(self) -> Any:
        try:
            return super().load()
        except (LookupError, TypeError, ValueError, AttributeError, struct.error) as error:
            raise pickle.UnpicklingError(f"{type(error).__name__}: {error}") from error

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full not in self.names:  # Python 2's names, which protocol 2 writes
            python3 = _compat_pickle.NAME_MAPPING.get((module, name))
            python3 = python3 or (_compat_pickle.IMPORT_MAPPING.get(module, module), name)
            full = ".".join(python3)
        if full not in self.names:
            raise pickle.UnpicklingError(
                f"it names {full}, which no fairseq checkpoint holds; nothing of it was run"
            )
        return self.names[full]

    def _reduce(self) -> None:
        function = self.stack[-2]  # type: ignore[attr-defined]
        if not any(function is known for known in self.names.values()):
            raise pickle.UnpicklingError(f"it calls {type(function).__name__}; it was not run")
        pickle._Unpickler.load_reduce(self)  # type: ignore[attr-defined]

    def _new(self) -> None:
        made = self.stack[-2]  # type: ignore[attr-defined]
        if not any(made is known for known in self.names.values()):
            raise pickle.UnpicklingError(f"it makes a {type(made).__name__}; it was not made")
        pickle._Unpickler.load_newobj(self)  # type: ignore[attr-defined]

    def _build(self) -> None:
        made = type(self.stack[-2])  # type: ignore[attr-defined]
        if not any(made is known for known in self.names.values()):
            raise pickle.UnpicklingError(f"it sets the state of a {made.__name__}; it was not set")
        pickle._Unpickler.load_build(self)  # type: ignore[attr-defined]

    def _item(self) -> None:
        self._check_mapping(self.stack[-3])  # type: ignore[attr-defined]
        pickle._Unpickler.load_setitem(self)  # type: ignore[attr-defined]

    def _items(self) -> None:
        self._check_mapping(self.metastack[-1][-1])  # type: ignore[attr-defined]
        pickle._Unpickler.load_setitems(self)  # type: ignore[attr-defined]

    @staticmethod
    def _check_mapping(into: Any) -> None:
        """torch < 2.10 writes into whatever a file says, tensors and storages too."""
        if not isinstance(into, dict):
            raise pickle.UnpicklingError(f"it writes into a {type(into).__name__}, no dictionary")

    def _refuse(self) -> None:
        raise pickle.UnpicklingError("it holds an instruction that no checkpoint needs")

    def _stored(self) -> None:
        self._check_size(self.stack[-1])  # type: ignore[attr-defined]
        pickle._Unpickler.load_binpersid(self)  # type: ignore[attr-defined]

    def _check_size(self, told: Any) -> None:
        """torch < 2.1 believes what a file says of a storage's size, and reads past its end."""
        if not isinstance(told, tuple) or len(told) < 5 or told[0] not in ("storage", b"storage"):
            raise pickle.UnpicklingError("it refers to something that is no storage")
        dtype = getattr(told[1], "dtype", torch.uint8)
        needed = int(told[4]) * torch.empty(0, dtype=dtype).element_size()
        have = self.file_size
        if self.sizes is not None:
            have = self.sizes.get(str(told[2]), 0)
        if not 0 <= needed <= have:
            raise pickle.UnpicklingError(
                f"it speaks of a tensor of {needed} bytes and holds {have} of them"
            )

    dispatch[pickle.REDUCE[0]] = _reduce
    dispatch[pickle.NEWOBJ[0]] = _new
    dispatch[pickle.BUILD[0]] = _build
    dispatch[pickle.BINPERSID[0]] = _stored
    dispatch[pickle.SETITEM[0]] = _item
    dispatch[pickle.SETITEMS[0]] = _items
    for _code in (
        pickle.INST, pickle.OBJ, pickle.NEWOBJ_EX, pickle.PERSID,
        pickle.EXT1, pickle.EXT2, pickle.EXT4,
    ):  # fmt: skip
        dispatch[_code[0]] = _refuse


def _records(file: IO[bytes]) -> Tuple[int, Optional[Dict[str, int]]]:
    """(bytes of the file, bytes of each storage in it by its key, or None for no zip file).

    Raises:
        UnpicklingError: a kind of file that holds programs, or is larger unpacked than packed.
    """
    start = file.tell()
    size = file.seek(0, os.SEEK_END)
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
            names = [entry.filename for entry in entries]
            if any(name.split("/")[-1] == "constants.pkl" for name in names):
                raise pickle.UnpicklingError("it is a TorchScript program, no checkpoint")
            if sum(entry.file_size for entry in entries) > size:
                raise pickle.UnpicklingError("its records are compressed, or overlap")
            return size, {
                name.split("/", 2)[2]: entry.file_size
                for name, entry in zip(names, entries)
                if name.count("/") == 2 and name.split("/")[1] == "data"
            }
        file.seek(start)
        if tarfile_like(file):
            raise pickle.UnpicklingError("it is a tar file, no checkpoint")
        return size, None
    finally:
        file.seek(start)


def tarfile_like(file: IO[bytes]) -> bool:
    """Whether torch would unpack it as the tar format of its first releases."""
    try:
        tarfile.open(fileobj=file, mode="r:").close()
    except tarfile.TarError:
        return False
    return True


def load_checked(file: Any, names: Dict[str, Any], map_location: Any = None) -> Any:
    """``torch.load`` that makes nothing and calls nothing but what is listed.

    Args:
        file: a path or an open file.
        names: from ``allowed``.
        map_location: as torch's.

    Raises:
        UnpicklingError: something that is not listed; nothing of it was run.
    """
    if isinstance(file, (str, os.PathLike)):
        with open(file, "rb") as stream:
            return load_checked(stream, names, map_location)
    file_size, sizes = _records(file)
    held = {"names": names, "sizes": sizes, "file_size": file_size}
    unpickler = type("Unpickler", (CheckedUnpickler,), held)
    module: Any = types.ModuleType("checked_pickle")
    module.Unpickler = unpickler
    module.load = lambda stream, **options: unpickler(stream, **options).load()
    module.UnpicklingError = pickle.UnpicklingError
    return _load(file, map_location, module, sizes is not None)


def _load(file: IO[bytes], map_location: Any, module: Any, zipped: bool) -> Any:
    """``torch.load`` with a pickle module; torch 1.13 has the argument and ignores it."""
    if torch.__version__ >= (2, 0):  # type: ignore[operator]  # TorchVersion compares with tuples
        return torch.load(file, map_location=map_location, pickle_module=module)
    serialization: Any = torch.serialization
    if not zipped:
        return serialization._legacy_load(file, map_location, module, encoding="utf-8")
    with serialization._open_zipfile_reader(file) as archive:
        return serialization._load(archive, map_location, module, encoding="utf-8")
