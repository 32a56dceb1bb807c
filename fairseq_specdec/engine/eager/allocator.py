"""Settings of the C library's memory allocator: when freed memory returns to the system."""

import ctypes
import os
import sys
from typing import Any

# Of glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT = 1 << 30  # free bytes at the end of the heap that are kept
HEAP = 32 << 20  # bytes up to which a block is taken from the heap: the most that glibc takes
OURS_NOT = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def _of_glibc(name: str) -> Any | None:
    """A function of glibc, or None where there is another C library."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), name, None)


def keep_freed_memory() -> bool:
    """Let glibc keep freed memory for the next iteration, in the whole process.

    The log-probabilities of a block take up to some megabytes. By default such memory returns to
    the system when it is freed, and every page of it is mapped and cleared again in the next
    iteration. The process grows no larger than its largest size so far.

    Returns:
        Whether anything was set: not outside of Linux with glibc, and not where the environment
        sets one of ``OURS_NOT`` itself.
    """
    if any(name in os.environ for name in OURS_NOT):
        return False
    mallopt = _of_glibc("mallopt")
    if mallopt is None:
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, KEPT)) and bool(mallopt(M_MMAP_THRESHOLD, HEAP))


def give_back_freed_memory() -> None:
    """Return free memory to the operating system, where the C library is glibc.

    Freed weights leave gaps between the blocks still in use, too small for the next allocations.
    """
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)
