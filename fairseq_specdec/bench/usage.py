"""What a process uses: its peak memory, whether its threads are at rest, whether it had a core."""

import os
import resource
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch

WINDOW = 0.002  # seconds looked at
QUIET = 0.15  # share of a window that a process at rest may use
WINDOWS = 2  # quiet ones in a row: a spinning thread may be off the core for a while
# CPU time and wall time of one thread on a core of its own differ by less than this share.
MARGIN = 0.15


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


def until_at_rest(longest: float = 1.0) -> bool:
    """Wait until this process hardly uses the processor, ``longest`` seconds at most.

    Thread pools spin for 1 to 200 ms after their work, in case more comes. With few cores that
    slows whoever decodes next.
    """
    end, quiet = time.perf_counter() + longest, 0
    while quiet < WINDOWS and time.perf_counter() < end:
        used, at = time.process_time(), time.perf_counter()
        time.sleep(WINDOW)
        share = (time.process_time() - used) / (time.perf_counter() - at)
        quiet = quiet + 1 if share < QUIET else 0
    return quiet == WINDOWS


def thread_warnings(systems: Sequence[Any], cuda: bool, batch_size: int) -> list[str]:
    """A line for each system whose CPU time is not the wall time of one thread.

    None on a GPU, where the two need not agree, nor where more than one thread was allowed.
    """
    lines = []
    for system in systems if not cuda and torch.get_num_threads() == 1 else ():
        wall = sum(sum(passes) for passes in system.times)
        if abs(system.cpu - wall) > MARGIN * wall:
            why = "other programs took the core, or it waited"
            if system.cpu > wall:
                why = "it ran more than one thread"
            lines.append(
                f"WARNING: {system.name} used {system.cpu:.2f} s of CPU in {wall:.2f} s of wall "
                f"time: {why}. At batch size {batch_size} its times are no measurement of one "
                "thread."
            )
    return lines
