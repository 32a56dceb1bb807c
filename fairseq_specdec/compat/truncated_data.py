"""Binarised data that was cut off is named."""

from __future__ import annotations

import os
import struct
from typing import Any, BinaryIO, Tuple

from .patch import wrap_once

MMAP = b"MMIDIDX\x00\x00"
LEGACY = b"TNTIDX\x00\x00"
BINARISED = ("mmap", "cached", "lazy")
REMEDY = "copy it again, or binarise the text again with fairseq-preprocess"


def name_truncated_data() -> None:
    """Say which ``.idx`` or ``.bin`` is shorter than it must be, before anything is read from it.

    Fault: of a truncated index numpy says "buffer is smaller than requested size", of a truncated
    ``.bin`` only when a missing sentence is asked for; in the legacy format both are read as
    whatever the memory holds. Versions: all.
    """
    from fairseq.data import indexed_dataset

    wrap_once(indexed_dataset, "make_dataset", "name_truncated_data", _make_dataset)


def _make_dataset(original: Any, path: str, impl: Any, *args: Any, **kwargs: Any) -> Any:
    index, data = path + ".idx", path + ".bin"
    if impl in BINARISED and os.path.isfile(index) and os.path.isfile(data):
        check_lengths(index, data)
    return original(path, impl, *args, **kwargs)


def check_lengths(index: str, data: str) -> None:
    """Compare the sizes of both files with what the index says.

    Args:
        index: the ``.idx``.
        data: the ``.bin``.

    Raises:
        OSError: one is shorter, or the index is none, by file and with the remedy.
    """
    with open(index, "rb") as stream:
        magic = stream.read(len(MMAP))
        try:
            if magic == MMAP:
                length, promised = _mmap_lengths(stream)
            elif magic.startswith(LEGACY):
                stream.seek(len(LEGACY))
                length, promised = _legacy_lengths(stream)
            else:
                raise OSError(f"{index}: is no index that fairseq-preprocess writes; {REMEDY}")
        except (struct.error, KeyError) as error:
            raise OSError(f"{index}: its first bytes are damaged or missing; {REMEDY}") from error
    have = os.path.getsize(index)
    if have < length:
        raise OSError(f"{index}: was cut off ({have} of {length} bytes); {REMEDY}")
    have = os.path.getsize(data)
    if have < promised:
        raise OSError(f"{data}: was cut off ({have} of {promised} bytes); {REMEDY}")
    if promised == 0:
        raise OSError(f"{data}: holds no sentence; binarise a text that has some")


def _unpack(stream: BinaryIO, form: str) -> Tuple[int, ...]:
    """Little-endian integers where the stream is; ``struct.error`` where it ends before."""
    return struct.unpack("<" + form, stream.read(struct.calcsize("<" + form)))


def _mmap_lengths(stream: BinaryIO) -> Tuple[int, int]:
    """Bytes that a whole index has, and those of its data: ``fairseq.data.MMapIndexedDataset``."""
    from fairseq.data import indexed_dataset

    _, code, count = _unpack(stream, "QBQ")
    width = indexed_dataset._code_to_dtype[code]().itemsize
    head = stream.tell()
    length = head + count * (4 + 8)  # of every sentence its size, then of every one its place
    if count == 0 or os.fstat(stream.fileno()).st_size < length:
        return length, 0
    stream.seek(head + (count - 1) * 4)
    (size,) = _unpack(stream, "i")
    stream.seek(length - 8)
    (place,) = _unpack(stream, "q")
    return length, place + size * width


def _legacy_lengths(stream: BinaryIO) -> Tuple[int, int]:
    """The same of ``fairseq.data.IndexedDataset``."""
    _, _, width, count, sizes = _unpack(stream, "QQQQQ")
    head = stream.tell()
    length = head + 8 * (2 * (count + 1) + sizes)
    if os.fstat(stream.fileno()).st_size < length:
        return length, 0
    stream.seek(head + 8 * (2 * count + 1))
    (place,) = _unpack(stream, "q")
    return length, place * width
