"""How much memory this process has used."""

from __future__ import annotations

import os
import resource
import sys

import torch


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
