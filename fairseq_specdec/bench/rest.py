"""Waiting until a process's threads have come to rest.

Thread pools (OpenMP's, an engine's own) spin for a while after their work is done, in case more
comes: some milliseconds to 200. On a machine with few cores that slows whoever decodes next.
"""

from __future__ import annotations

import time

WINDOW = 0.002  # seconds looked at
QUIET = 0.15  # share of a window that a process at rest may use
WINDOWS = 2  # quiet ones in a row: a spinning thread may be off the core for a while
LONGEST = 1.0  # seconds waited at most


def until_at_rest(longest: float = LONGEST) -> bool:
    """Wait until this process hardly uses the processor.

    Args:
        longest: seconds to wait at most.

    Returns:
        whether it came to rest.
    """
    began = time.perf_counter()
    quiet = 0
    while quiet < WINDOWS:
        if time.perf_counter() - began > longest:
            return False
        used, at = time.process_time(), time.perf_counter()
        time.sleep(WINDOW)
        share = (time.process_time() - used) / (time.perf_counter() - at)
        quiet = quiet + 1 if share < QUIET else 0
    return True
