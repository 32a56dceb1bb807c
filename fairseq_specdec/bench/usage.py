"""What this process uses: its peak memory, and whether its threads are at rest."""

from __future__ import annotations

import os
import resource
import sys
import time

import torch

WINDOW = 0.002  # seconds looked at
QUIET = 0.15  # share of a window that a process at rest may use
WINDOWS = 2  # quiet ones in a row: a spinning thread may be off the core for a while


def peak_resident() -> int:
    """Bytes: the most that this process has had in memory."""
    if os.path.exists("/proc/self/status"):
        # Not ru_maxrss, which a process inherits from the one that started it.
        with open("/proc/self/status", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def peak(cuda: bool) -> int:
    """Bytes: the most that torch has had on the GPU, or the process in memory."""
    return torch.cuda.max_memory_allocated() if cuda else peak_resident()


def until_at_rest(longest: float = 1.0) -> bool:
    """Wait until this process hardly uses the processor, ``longest`` seconds at most.

    Thread pools spin for 1 to 200 ms after their work, in case more comes. With few cores that
    slows whoever decodes next.

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
