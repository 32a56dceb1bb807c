"""Binarised data that was cut off or damaged is named."""

from __future__ import annotations

import contextlib
import contextvars
import os
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.named import naming

from .patch import wrap_once

MMAP = b"MMIDIDX\x00\x00"
LEGACY = b"TNTIDX\x00\x00"
BINARISED = ("mmap", "cached", "lazy")
REMEDY = "copy it again, or binarise the text again with fairseq-preprocess"

_CHUNK = 1 << 24  # tokens
_checking: contextvars.ContextVar[bool] = contextvars.ContextVar("_checking", default=False)


class Layout(NamedTuple):
    """Where the sentences of a ``.bin`` stand.

    Attributes:
        dtype: of a token.
        sizes: int64 [sentences], tokens of each; one sentence follows another.
        offset: what the file adds to every token: 1 in the legacy format.
    """

    dtype: Any
    sizes: Any
    offset: int


def name_truncated_data() -> None:
    """Say which ``.idx`` or ``.bin`` is shorter than it must be, before anything is read from it.

    Fault: of a truncated index numpy says "buffer is smaller than requested size", of a truncated
    ``.bin`` only when a missing sentence is asked for; in the legacy format both are read as
    whatever the memory holds. Sizes and places that contradict each other are decoded, a negative
    size as the rest of the file. Versions: all.
    """
    from fairseq.data import indexed_dataset

    wrap_once(indexed_dataset, "infer_dataset_impl", "name_truncated_data", _infer)
    wrap_once(indexed_dataset, "make_dataset", "name_truncated_data", _make_dataset)


@contextlib.contextmanager
def tokens_checked() -> Iterator[None]:
    """What is read inside is compared with its dictionary, token by token (``check_tokens``)."""
    token = _checking.set(True)
    try:
        yield
    finally:
        _checking.reset(token)


def _infer(original: Any, path: str, *args: Any, **kwargs: Any) -> Any:
    with naming(path + ".idx"):
        return original(path, *args, **kwargs)


def _make_dataset(original: Any, path: str, impl: Any, *args: Any, **kwargs: Any) -> Any:
    index, data = path + ".idx", path + ".bin"
    if impl in BINARISED and os.path.isfile(index) and os.path.isfile(data):
        layout = check_lengths(index, data)
        if _checking.get() and kwargs.get("dictionary") is not None:
            check_tokens(index, data, layout, len(kwargs["dictionary"]))
    return original(path, impl, *args, **kwargs)


def check_lengths(index: str, data: str) -> Layout:
    """Compare both files with the index. Raises OSError: one is shorter, or the index is
    none, or contradicts itself; by file and with the remedy."""
    with naming(index), open(index, "rb") as stream:
        magic = stream.read(len(MMAP))
        try:
            if magic == MMAP:
                layout = _mmap_layout(stream, index)
            elif magic.startswith(LEGACY):
                stream.seek(len(LEGACY))
                layout = _legacy_layout(stream, index)
            else:
                raise UsageError(index, "is no index that fairseq-preprocess writes", REMEDY)
        except struct.error as error:
            raise UsageError(index, "its first bytes are damaged or missing", REMEDY) from error
    promised = int(layout.sizes.sum()) * layout.dtype.itemsize
    have = os.path.getsize(data)
    if have < promised:
        raise UsageError(data, f"was cut off ({have} of {promised} bytes)", REMEDY)
    if promised == 0:
        raise UsageError(data, "holds no sentence", "binarise a text that has some")
    return layout


def check_tokens(index: str, data: str, layout: Layout, symbols: int) -> None:
    """Compare every token with the size of the dictionary.

    Reads the ``.bin`` once, as fairseq does before it maps it into memory.

    Raises:
        OSError: a sentence is empty, or has a token outside the dictionary.
    """
    empty = np.flatnonzero(layout.sizes == 0)
    if len(empty):
        raise UsageError(index, f"sentence {empty[0]} is empty, it lacks even </s>", REMEDY)
    if layout.dtype.kind not in "iu":
        raise UsageError(index, f"its tokens are of type {layout.dtype}, no integers", REMEDY)
    tokens = np.memmap(data, layout.dtype, "r", shape=(int(layout.sizes.sum()),))
    low, high = layout.offset, symbols + layout.offset
    for start in range(0, len(tokens), _CHUNK):
        chunk = tokens[start : start + _CHUNK]
        if low <= int(chunk.min()) and int(chunk.max()) < high:
            continue
        # As Python's integers: no conversion from unsigned ones.
        place = next(i for i, token in enumerate(chunk.tolist()) if not low <= token < high)
        sentence = np.searchsorted(np.cumsum(layout.sizes), start + place, "right")
        raise UsageError(
            data,
            f"sentence {sentence} has token {int(chunk[place]) - layout.offset}",
            f"the dictionary has {symbols} symbols; binarise the text again with the model's "
            "dict.*.txt",
        )


def _unpack(stream: BinaryIO, form: str) -> tuple[int, ...]:
    """Little-endian integers where the stream is; ``struct.error`` where it ends before."""
    return struct.unpack("<" + form, stream.read(struct.calcsize("<" + form)))


def _dtype(index: str, version: int, code: int) -> Any:
    """The type of a token, of an index that fairseq can read."""
    from fairseq.data import indexed_dataset

    if version != 1:
        raise UsageError(index, f"is of version {version}, and fairseq reads version 1", REMEDY)
    if code not in indexed_dataset._code_to_dtype:
        raise UsageError(index, f"its first bytes are damaged (no number format is {code})", REMEDY)
    return np.dtype(indexed_dataset._code_to_dtype[code])


def _arrays(stream: BinaryIO, index: str, *parts: tuple[str, int]) -> tuple[Any, ...]:
    """The rest of an index: of each (type, count) an array, as int64."""
    length = stream.tell() + sum(np.dtype(kind).itemsize * count for kind, count in parts)
    have = os.fstat(stream.fileno()).st_size
    if have < length:
        raise UsageError(index, f"was cut off ({have} of {length} bytes)", REMEDY)
    if have > length:
        raise UsageError(index, f"has {have} bytes, and its sentences take {length}", REMEDY)
    read = (stream.read(np.dtype(kind).itemsize * count) for kind, count in parts)
    return tuple(
        np.frombuffer(content, kind).astype(np.int64) for content, (kind, _) in zip(read, parts)
    )


def _check_places(index: str, sizes: Any, places: Any, width: int = 1) -> None:
    """Raise where a size is negative or a sentence does not begin where the one before ends."""
    wrong = np.flatnonzero(sizes < 0)
    if len(wrong):
        raise UsageError(index, f"sentence {wrong[0]} has {sizes[wrong[0]]} tokens", REMEDY)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]) * width
    wrong = np.flatnonzero(places != ends[: len(places)])
    if len(wrong):
        raise UsageError(
            index, f"its sizes do not fit its places from sentence {wrong[0]} on", REMEDY
        )


def _mmap_layout(stream: BinaryIO, index: str) -> Layout:
    """What ``fairseq.data.MMapIndexedDataset`` reads."""
    version, code, count = _unpack(stream, "QBQ")
    dtype = _dtype(index, version, code)
    sizes, places = _arrays(stream, index, ("<i4", count), ("<i8", count))
    _check_places(index, sizes, places, dtype.itemsize)
    return Layout(dtype, sizes, 0)


def _legacy_layout(stream: BinaryIO, index: str) -> Layout:
    """What ``fairseq.data.IndexedDataset`` reads, of sentences: arrays of one dimension."""
    version, code, width, count, dimensions = _unpack(stream, "QQQQQ")
    dtype = _dtype(index, version, code)
    if width != dtype.itemsize:
        raise UsageError(index, f"its tokens of type {dtype} take {width} bytes each", REMEDY)
    shapes, places, sizes = _arrays(
        stream, index, ("<i8", count + 1), ("<i8", count + 1), ("<i8", dimensions)
    )
    if dimensions != count:
        raise UsageError(index, f"has {dimensions} sizes for {count} sentences", REMEDY)
    _check_places(index, np.ones(count, np.int64), shapes)
    _check_places(index, sizes, places)
    return Layout(dtype, sizes, 1)
