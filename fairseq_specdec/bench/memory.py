"""Peak memory of each system, in a process that holds nothing else.

``python -m fairseq_specdec.bench.memory INDEX WORDS`` is such a process: it decodes the longest
batches with row INDEX of the ``specdec-bench`` command line WORDS and prints its peaks as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import subprocess
import sys
from typing import Any, Dict, List, Optional, Sequence

import torch

from . import session

# Decoding needs most memory for the longest sentences; a few, since outputs differ in length.
LONGEST = 3

NOTE_CPU = (
    "peak resident memory of a process that loads this system alone and decodes the longest "
    "sentences, Python and its libraries included; not measured for other engines"
)
NOTE_GPU = (
    "peak GPU memory allocated by a process that loads this system alone and decodes the longest "
    "sentences; not measured for other engines"
)

logger = logging.getLogger(__name__)


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


def measure_here(index: int, words: Sequence[str]) -> Dict[str, Any]:
    """Load row ``index`` and decode.

    Returns:
        ``peaks``: bytes by batch size; ``before``: bytes before any model was loaded (CPU only).
    """
    asked = session.read(words)
    before = peak_resident()
    plan, make = asked.makers()[index]
    workload = asked.workload(plan.paths)
    system = make(workload)
    peaks = {}
    # Ascending: the peak so far is that of the largest batches so far.
    for size in sorted(asked.sizes):
        for sample in workload.batches(size)[-LONGEST:]:
            system.decode(sample, None, asked.config.common.seed if system.sampled else None)
        on_gpu = workload.cuda
        peaks[str(size)] = torch.cuda.max_memory_allocated() if on_gpu else peak_resident()
    return {"peaks": peaks, "before": 0 if workload.cuda else before}


def measure(index: int, words: Sequence[str]) -> Optional[Dict[str, Any]]:
    """:func:`measure_here` in a new process; None, and a warning, where that fails."""
    command: List[str] = [sys.executable, "-m", "fairseq_specdec.bench.memory", str(index), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        logger.warning("memory of row %d: %s", index, done.stderr[-500:].strip())
        return None
    return dict(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    logging.getLogger().setLevel(logging.ERROR)
    sys.stdout.write("\n" + json.dumps(measure_here(int(sys.argv[1]), sys.argv[2:])) + "\n")
