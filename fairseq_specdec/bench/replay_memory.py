"""Peak memory of one row of ``specdec-bench --replay``, in a process that holds nothing else.

``python -m fairseq_specdec.bench.replay_memory INDEX WORDS``: as ``memory`` for checkpoints.
INDEX counts stock beam 5, stock beam 1, and the strategies.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from typing import Any, Dict, Sequence

from .memory import LONGEST
from .replay_cli import ReplayBench
from .replay_flags import read
from .resident import peak, peak_resident


def measure_here(index: int, words: Sequence[str]) -> Dict[str, Any]:
    """Build the models of row ``index`` and decode.

    Returns:
        ``peaks``: bytes; ``before``: bytes before any model was built (CPU only).
    """
    asked = read(words)
    before = peak_resident()
    with tempfile.TemporaryDirectory(prefix="specdec-bench-") as folder:
        bench = ReplayBench(asked, words, folder, index)
        args = asked.args
        for sample in bench.models.batches(args.sentences, args.length, args.batch_size)[-LONGEST:]:
            bench.systems[0].decode(sample, None, None)
    return {"peaks": {"": peak(asked.cuda)}, "before": 0 if asked.cuda else before}


if __name__ == "__main__":
    logging.getLogger().setLevel(logging.ERROR)
    sys.stdout.write("\n" + json.dumps(measure_here(int(sys.argv[1]), sys.argv[2:])) + "\n")
