"""Parts of a file as tensors that are mapped, not read."""

import ctypes
import functools
import mmap
import os
import sys
import weakref
from typing import Any

import torch

_PRIVATE, _READ_WRITE = 2, 3  # MAP_PRIVATE, PROT_READ | PROT_WRITE of Linux and macOS
_FAILED = ctypes.c_void_p(-1).value


@functools.lru_cache(maxsize=1)
def _library() -> Any | None:
    """The C library's mmap and munmap; None where there are none."""
    if not sys.platform.startswith(("linux", "darwin")):
        return None
    library = ctypes.CDLL(None, use_errno=True)
    size, number, address = ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p
    library.mmap.argtypes = [address, size, number, number, number, ctypes.c_int64]
    library.mmap.restype = address
    library.munmap.argtypes = [address, size]
    return library


def mapped(file: int, start: int, count: int, dtype: torch.dtype) -> torch.Tensor | None:
    """``count`` elements of a file from byte ``start`` on, [N]; what is written stays in memory.

    Python's own mmap keeps a file open for each mapping, and a model has hundreds of weights.

    Args:
        file: its number; it may be closed afterwards.

    Returns:
        None where the system does not map it, or the file is shorter. It is unmapped with the last
        tensor of its memory.
    """
    library = _library()
    before = start % mmap.ALLOCATIONGRANULARITY
    size = before + count * torch.empty(0, dtype=dtype).element_size()
    if library is None or count == 0 or start - before + size > os.fstat(file).st_size:
        return None
    address = library.mmap(None, size, _READ_WRITE, _PRIVATE, file, start - before)
    if address == _FAILED:
        return None
    memory = (ctypes.c_uint8 * size).from_address(address)
    weakref.finalize(memory, library.munmap, address, size).atexit = False
    return torch.frombuffer(memory, dtype=dtype, count=count, offset=before)
