"""Processes that work together: GPUs of this node under torchrun, or one process.

scripts/slurm sets NODES, NODE_RANK and TORCHRUN_FLAGS for several nodes, of which all but the first
wait AWAIT seconds at most for what the first one makes.
"""

import pathlib
import subprocess
import time
from typing import Any, List

from recipe import LIB, StepError
from step import Step

# Keep freed memory in the process: otherwise every update maps, zeroes and unmaps gigabytes.
ALLOCATION = {
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TRIM_THRESHOLD_": "20000000000",
    "MALLOC_TOP_PAD_": "268435456",
}


class Devices:
    """What is at hand for a step.

    Attributes:
        cpu: whether that is the processor.
        gpus: processes of this node.
        precision: fp16, fp32 or bf16.
        nodes: how many there are.
        rank: of this node; the first, 0, writes what all need.
    """

    def __init__(self, step: Step) -> None:
        settings, self._step = step.settings, step
        words = ["--cpu"] * (step["DEVICE"] == "cpu")
        words += ["--bf16"] * (settings.get("CPU_PRECISION") == "bf16")
        command = [step.python, str(LIB / "devices.py"), *words]
        done = subprocess.run(command, env=step.environment, stdout=subprocess.PIPE)
        if done.returncode:
            raise StepError(f"{step.python} cannot say what devices there are: see above")
        gpus, precision, name = done.stdout.decode("ascii").split()
        self.cpu = step["DEVICE"] == "cpu" or (step["DEVICE"] == "auto" and name == "cpu")
        self.gpus = int(self._number("GPUS", gpus))
        self.precision = settings.get("PRECISION") or precision
        self.nodes = int(self._number("NODES", "1"))
        self.rank = int(settings.get("NODE_RANK") or 0)
        threads = settings.number("THREADS")
        if self.cpu and self.gpus > 1:
            threads = max(1, threads // self.gpus)
        step.environment.update(ALLOCATION, OMP_NUM_THREADS=str(threads))
        step.log(f"{self.world} processes on {self.nodes} nodes, {self.precision}, {name}")

    def _number(self, name: str, default: str) -> str:
        value = self._step.settings.get(name) or default
        if not value.isdigit() or value == "0":
            raise StepError(f"{name}: {value} is no number from 1")
        return value

    @property
    def world(self) -> int:
        """Processes that work together."""
        return self.nodes * self.gpus

    @property
    def first(self) -> bool:
        """Whether this is the node that writes what all need."""
        return self.rank == 0

    @property
    def half(self) -> List[str]:
        """Flags of a fairseq command that decodes: --cpu, --fp16 or neither."""
        if self.cpu:
            return ["--cpu"]
        return ["--fp16"] if self.precision == "fp16" else []

    def launch(self, *words: Any, log: pathlib.Path) -> None:
        """Run Python, under torchrun where there are several processes."""
        if self.world == 1:
            self._step.run(self._step.python, *words, log=log, failure=self._failure(words, log))
            return
        flags = self._step.settings.words("TORCHRUN_FLAGS")
        command = ("torchrun", *flags, "--nproc_per_node", self.gpus, *words)
        self._step.run(*command, log=log, failure=self._failure(words, log))

    @staticmethod
    def _failure(words: Any, log: pathlib.Path) -> str:
        name = words[1] if words[0] == "-m" else pathlib.Path(str(words[0])).stem
        return f"{name} failed: see {log}"

    def wait(self, path: pathlib.Path) -> None:
        """Wait until the first node has made a file, on the disk that the nodes share."""
        limit = self._step.settings.number("AWAIT")
        for _ in range(limit):
            if path.exists():
                return
            time.sleep(1)
        if not path.exists():
            raise StepError(
                f"the first node has not made {path} in {limit} seconds; see its log, and run this "
                "again"
            )
