"""The near side of ``peer_worker``: another engine, in a process of its own, as a system.

In one process engines pay for each other: CTranslate2 and torch both use GNU's OpenMP, which stops
spinning between two regions of work once it manages more threads than there are cores. On two cores
with two threads each, iterations of this project's decoding were once seen to take more than twice
as long beside four CTranslate2 models; that this was why is likely, not proven.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import weakref
from typing import Any, Dict, List, Optional, Tuple

import torch

import fairseq_specdec

from .rest import until_at_rest
from .timing import System
from .workload import BenchError

# How long Intel's OpenMP, where an engine was built with that, lets idle threads spin; by default
# 200, which every turn would wait for.
SPIN_MS = "10"

# What a library prints while it is imported must not mix with the answers.
START = (
    "import os; answers = os.dup(1); os.dup2(2, 1)\n"
    "from fairseq_specdec.bench import peer_worker; peer_worker.main(answers)"
)


def environment() -> Dict[str, str]:
    """For a process that is to import this very package."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(fairseq_specdec.__file__)))
    path = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"KMP_BLOCKTIME": SPIN_MS, **os.environ, "PYTHONPATH": os.pathsep.join(path)}


def _end(process: Any, log: Any, folder: Any) -> None:
    """The worker ends when there is nothing more to read; its converted model goes with it."""
    process.stdin.close()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
    log.close()
    folder.cleanup()


class Worker:
    """A process with one engine.

    Args:
        engine: module of this package with its ``Engine`` and ``version``.
        title: the engine's name, for messages.
        settings: of its ``Engine``.
        folder: temporary folder that the settings name; goes when the worker does.

    Attributes:
        version: of the engine's package.
        before: bytes that the process had used before any model was loaded.
        peak: bytes that it had used at most when it last answered; None where nobody knows.

    Raises:
        BenchError: the engine cannot load the model.
    """

    def __init__(self, engine: str, title: str, settings: Dict[str, Any], folder: Any) -> None:
        self.title = title
        self.peak: Optional[int] = None
        self.log = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(
            [sys.executable, "-c", START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            encoding="utf-8",
            env=environment(),
        )
        self.close = weakref.finalize(self, _end, self.process, self.log, folder)
        ready = self.ask({"engine": engine, "settings": settings})
        self.version: str = ready["version"]
        self.before: int = ready["before"]

    def ask(self, order: Dict[str, Any]) -> Dict[str, Any]:
        """Hand over an order and wait for the answer.

        Raises:
            BenchError: the engine failed, or its process ended.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.log.seek(0)
            told = self.log.read()[-500:].strip()
            raise BenchError(f"--peers: {self.title}: its process ended: {told}")
        answer: Dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise BenchError(f"--peers: {self.title}: {answer['error'][:500]}")
        return answer


class PeerSystem(System):
    """A row that a worker decodes.

    Args:
        name: row of the table.
        worker: decodes.
        row: the engine's settings for this row.
        task: holds the dictionaries.
        generation: fairseq's generation flags by field name.
    """

    def __init__(
        self, name: str, worker: Worker, row: Dict[str, Any], task: Any, generation: Dict[str, Any]
    ) -> None:
        super().__init__(name, None, ())
        self.worker = worker
        self.row = row
        self.pad = task.source_dictionary.pad()
        self.generation = generation

    def timed(self, sample: Dict[str, Any]) -> Tuple[List[Any], float, float]:
        """One hypothesis a sentence, ``tokens`` only, and the two times as the worker took them."""
        tokens = sample["net_input"]["src_tokens"]
        rows = [[t for t in row if t != self.pad] for row in tokens.tolist()]
        flags = self.generation
        limit = int(flags.get("max_len_a", 0) * tokens.size(1) + flags.get("max_len_b", 200))
        until_at_rest()  # the threads of what was decoded here before
        answer = self.worker.ask({"rows": rows, "limit": limit, "row": self.row})
        self.worker.peak = answer["peak"]
        found = [[{"tokens": torch.tensor(out)}] for out in answer["tokens"]]
        return found, answer["seconds"], answer["cpu"]
