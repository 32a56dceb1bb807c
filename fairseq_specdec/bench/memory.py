"""Peak memory of each system, in a process that holds nothing else."""

import logging
from collections.abc import Sequence
from typing import Any

import torch

from . import session
from .child import call_once
from .peers import PeerSystem
from .usage import peak_resident

# Decoding needs most memory for the longest sentences; a few, since outputs differ in length.
LONGEST = 3

NOTE_CPU = (
    "peak resident memory of a process that loads this system alone and decodes the longest "
    "sentences, Python and its libraries included"
)
NOTE_GPU = (
    "peak GPU memory allocated by a process that loads this system alone and decodes the longest "
    "sentences; CTranslate2 does not report it"
)

logger = logging.getLogger(__name__)


def measure_here(index: int, words: Sequence[str]) -> dict[str, Any]:
    """Load row ``index`` of a command line and decode. Returns ``peaks``: bytes by batch size;
    ``before``: bytes before any model was loaded (CPU only)."""
    asked = session.read(words)
    before = peak_resident()
    plan, make = asked.makers()[index]
    workload = asked.workload(plan.paths)
    workload.one_system = True
    system = make(workload)
    # Ascending: the peak so far is that of the largest batches so far.
    peaks: dict[str, int | None] = {}
    for size in sorted(asked.sizes):
        for sample in workload.batches(size)[-LONGEST:]:
            system.decode(sample)
        peak = torch.cuda.max_memory_allocated() if workload.cuda else peak_resident()
        peaks[str(size)] = system.peak if isinstance(system, PeerSystem) else peak
    if isinstance(system, PeerSystem):
        before = system.ready["before"]
        system.child.close()
    return {"peaks": peaks, "before": 0 if workload.cuda else before}


def measure(index: int, words: Sequence[str]) -> dict[str, Any] | None:
    """Call :func:`measure_here` in a new process. Returns its result; None, and a warning, where it
    fails."""
    order = {"index": index, "words": list(words)}
    try:
        return dict(call_once(f"memory of row {index}", f"{__name__}:measure_here", **order))
    except ValueError as error:
        logger.warning("%s", error)
        return None
