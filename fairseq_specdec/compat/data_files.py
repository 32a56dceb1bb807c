"""Binarised data that was cut off, damaged or made with another dictionary is named."""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from fairseq_specdec.errors import UsageError

from .patch import fixes

_REMEDY = "copy it again, or binarise the text again with fairseq-preprocess"
_WORDS = "binarise the text again with the model's dict.*.txt"
_checking: contextvars.ContextVar[bool] = contextvars.ContextVar("_checking", default=False)


@contextlib.contextmanager
def tokens_checked() -> Iterator[None]:
    """Every token of what is read inside is compared with the size of its dictionary."""
    token = _checking.set(True)
    try:
        yield
    finally:
        _checking.reset(token)


@fixes("fairseq.data.indexed_dataset.make_dataset")
def check_data_files(original: Any, path: str, impl: Any, *args: Any, **kwargs: Any) -> Any:
    """Say which ``.idx`` or ``.bin`` is shorter than it must be, or contradicts the other.

    Fault: of a truncated index numpy says "buffer is smaller than requested size", of a truncated
    ``.bin`` only when a missing sentence is asked for; in the legacy format both are read as
    whatever the memory holds, and wrong sizes or tokens are decoded. Versions: all.
    """
    index, data = path + ".idx", path + ".bin"
    known = impl in (None, "mmap", "cached", "lazy")
    if not known or not all(map(os.path.isfile, (index, data))):
        return original(path, impl, *args, **kwargs)
    have = os.path.getsize(data)
    try:
        made = original(path, impl, *args, **kwargs)
        total = int(np.sum(made.sizes, dtype=np.int64))
        dtype = np.dtype(made._index.dtype if impl == "mmap" else made.dtype)
        # Of a shorter index of the older format the rest is whatever the memory held.
        numbers = 0 if impl == "mmap" else 6 + 2 * len(made.data_offsets) + len(made.sizes)
        if numbers and os.path.getsize(index) != 8 * numbers:
            raise ValueError("it is shorter than it says")
    except Exception as error:  # of None, too: fairseq looked at the first bytes of the index
        where = index if have else data
        raise UsageError(where, "was cut off, is damaged or has no sentence", _REMEDY) from error
    wanted = total * dtype.itemsize
    if have != wanted or not have:
        raise UsageError(data, f"has {have} bytes, the .idx says {wanted}", _REMEDY)
    words, first = kwargs.get("dictionary"), int(impl != "mmap")  # added to tokens
    if not _checking.get() or words is None:
        return made
    tokens = np.memmap(data, dtype, "r", shape=(total,))
    low, high = int(tokens.min()) - first, int(tokens.max()) - first
    if low < 0 or high >= len(words):
        problem = f"holds token {low if low < 0 else high}, the dictionary has {len(words)} symbols"
        raise UsageError(data, problem, _WORDS)
    return made
