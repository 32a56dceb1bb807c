"""Resident memory of this process."""

import gc

from fairseq_specdec.engine.memory import give_back_freed_memory


def resident():
    """In MiB."""
    gc.collect()
    give_back_freed_memory()
    with open("/proc/self/status", encoding="utf-8") as lines:
        (line,) = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024
