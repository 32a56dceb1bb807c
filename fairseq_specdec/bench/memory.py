"""Peak memory of each system, in a process that holds nothing else.

``python -m fairseq_specdec.bench.memory INDEX WORDS`` is such a process: it decodes the longest
batches with row INDEX of the ``specdec-bench`` command line WORDS and prints its peaks as JSON.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any, Dict, List, Optional, Sequence

from . import session
from .peer_process import PeerSystem
from .resident import peak, peak_resident

# Decoding needs most memory for the longest sentences; a few, since outputs differ in length.
LONGEST = 3

# Does the same for a row of ``--replay``.
REPLAY = "fairseq_specdec.bench.replay_memory"

NOTE_CPU = (
    "peak resident memory of a process that loads this system alone and decodes the longest "
    "sentences, Python and its libraries included"
)
NOTE_GPU = (
    "peak GPU memory allocated by a process that loads this system alone and decodes the longest "
    "sentences; CTranslate2 does not tell"
)

logger = logging.getLogger(__name__)


def measure_here(index: int, words: Sequence[str]) -> Dict[str, Any]:
    """Load row ``index`` and decode.

    Returns:
        ``peaks``: bytes by batch size; ``before``: bytes before any model was loaded (CPU only).
    """
    asked = session.read(words)
    before = peak_resident()
    plan, make = asked.makers()[index]
    workload = asked.workload(plan.paths)
    workload.one_system = True
    system = make(workload)
    peaks: Dict[str, Optional[int]] = {}
    # Ascending: the peak so far is that of the largest batches so far.
    for size in sorted(asked.sizes):
        for sample in workload.batches(size)[-LONGEST:]:
            system.decode(sample, None, asked.config.common.seed if system.sampled else None)
        if isinstance(system, PeerSystem):
            peaks[str(size)] = system.worker.peak
        else:
            peaks[str(size)] = peak(workload.cuda)
    if isinstance(system, PeerSystem):
        before = system.worker.before
    return {"peaks": peaks, "before": 0 if workload.cuda else before}


def measure(index: int, words: Sequence[str], module: str = __name__) -> Optional[Dict[str, Any]]:
    """:func:`measure_here`, or another module's, in a new process; None, and a warning, where that
    fails."""
    command: List[str] = [sys.executable, "-m", module, str(index), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        logger.warning("memory of row %d: %s", index, done.stderr[-500:].strip())
        return None
    return dict(json.loads(done.stdout.splitlines()[-1]))


def add(row: Dict[str, Any], measured: Optional[Dict[str, Any]], size: str) -> None:
    """Put what ``measure`` found, if anything, into a row of figures, in MiB."""
    peak = measured and measured["peaks"][size]
    if measured and peak is not None:
        row["memory_mb"] = peak / 2**20
        row["memory_before_mb"] = measured["before"] / 2**20


if __name__ == "__main__":
    logging.getLogger().setLevel(logging.ERROR)
    sys.stdout.write("\n" + json.dumps(measure_here(int(sys.argv[1]), sys.argv[2:])) + "\n")
