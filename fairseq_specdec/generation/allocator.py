"""Memory that the C library would hand back to the system and fetch again at every iteration."""

from __future__ import annotations

import ctypes
import os
import sys

# Of glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT = 1 << 30  # bytes at the end of the heap that may lie free
HEAP = 32 << 20  # bytes up to which a block is taken from the heap: the most that glibc takes
OURS_NOT = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Let glibc keep freed memory for the next iteration, in the whole process.

    The log-probabilities of a block take up to some megabytes. By default such memory goes back to
    the system when it is freed, and every page of it is fetched and cleared anew in the next
    iteration. The process grows no larger than at its largest moment so far.

    Returns:
        Whether anything was set: not outside of Linux with glibc, and not where the environment
        sets one of ``OURS_NOT`` itself.
    """
    if not sys.platform.startswith("linux") or any(name in os.environ for name in OURS_NOT):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, KEPT)) and bool(mallopt(M_MMAP_THRESHOLD, HEAP))
