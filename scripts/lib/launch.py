"""The available devices, and processes that work together on them: under torchrun, or one process.

As in the papers: fp16 where the GPU computes in it fast (V100 and later), else fp32 (P100). On the
processor fp32, or with CPU_PRECISION=bf16 bf16 if it has instructions for that.

scripts/slurm sets NODES, NODE_RANK and TORCHRUN_FLAGS for several nodes, of which all but the first
wait AWAIT seconds at most for what the first one makes.
"""

import pathlib
import subprocess
import time
from typing import Any

from recipe import StepError
from step import Step

from fairseq_specdec.commands.words import ALLOCATION

FAST_HALF = (7, 0)  # compute capability of the V100
CPU_INFO = pathlib.Path("/proc/cpuinfo")
CPU_BF16 = {"avx512_bf16", "amx_bf16", "bf16"}  # x86's names, and Arm's


def computes_in_bf16(info: pathlib.Path = CPU_INFO) -> bool:
    """Whether the processor has instructions for bf16; without them it is slower than fp32."""
    if not info.exists():
        return False
    return not CPU_BF16.isdisjoint(info.read_text(encoding="utf-8", errors="replace").split())


def at_hand(cpu: bool, bf16: bool) -> tuple[int, str, str]:
    """How many processes, in which precision, on which device."""
    if not cpu:
        import torch

        count = torch.cuda.device_count()
        slowest = min((torch.cuda.get_device_capability(i) for i in range(count)), default=None)
        if slowest is not None:
            half = "fp16" if slowest >= FAST_HALF else "fp32"
            return count, half, torch.cuda.get_device_name(0)
    return 1, "bf16" if bf16 and computes_in_bf16() else "fp32", "cpu"


def asked(step: Step, bf16: bool) -> tuple[int, str, str]:
    """The available devices, found by a process of its own: this one would hold on to the GPU."""
    code = f"import launch; print(*launch.at_hand(False, {bf16}), sep='\\n')"
    command = [step.python, "-c", code]
    done = subprocess.run(command, env=step.environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise StepError(f"{step.python} cannot list the devices: see above")
    count, precision, name = done.stdout.splitlines()[-3:]
    return int(count), precision, name


class Devices:
    """The devices for a step.

    Attributes:
        cpu: whether that is the processor.
        gpus: processes of this node.
        precision: fp16, fp32 or bf16.
        nodes: how many there are.
        rank: of this node; the first, 0, writes what all need.
    """

    def __init__(self, step: Step) -> None:
        settings, self._step = step.settings, step
        bf16 = settings.get("CPU_PRECISION") == "bf16"
        cpu = step["DEVICE"] == "cpu"
        gpus, precision, name = at_hand(True, bf16) if cpu else asked(step, bf16)
        self.cpu = cpu or (step["DEVICE"] == "auto" and name == "cpu")
        self.gpus = self._number("GPUS", gpus)
        self.precision = settings.get("PRECISION") or precision
        self.nodes = self._number("NODES", 1)
        self.rank = int(settings.get("NODE_RANK") or 0)
        threads = settings.number("THREADS")
        if self.cpu and self.gpus > 1:
            threads = max(1, threads // self.gpus)
        step.environment.update(ALLOCATION, OMP_NUM_THREADS=str(threads))
        step.log(f"{self.world} processes on {self.nodes} nodes, {self.precision}, {name}")

    def _number(self, name: str, default: int) -> int:
        value = self._step.settings.get(name) or str(default)
        if not value.isdigit() or value == "0":
            raise StepError(f"{name}: {value} is no number from 1")
        return int(value)

    @property
    def world(self) -> int:
        """Processes that work together."""
        return self.nodes * self.gpus

    @property
    def first(self) -> bool:
        """Whether this is the node that writes what all need."""
        return self.rank == 0

    @property
    def half(self) -> list[str]:
        """Flags of a fairseq command that decodes: --cpu, --fp16 or neither."""
        if self.cpu:
            return ["--cpu"]
        return ["--fp16"] if self.precision == "fp16" else []

    def launch(self, *words: Any, log: pathlib.Path) -> None:
        """Run Python, under torchrun where there are several processes."""
        python: list[Any] = [self._step.python]
        if self.world > 1:
            flags = self._step.settings.words("TORCHRUN_FLAGS")
            python = ["torchrun", *flags, "--nproc_per_node", self.gpus]
        name = words[1] if words[0] == "-m" else pathlib.Path(str(words[0])).stem
        self._step.run(*python, *words, log=log, failure=f"{name} failed: see {log}")

    def wait(self, path: pathlib.Path) -> None:
        """Wait until the first node has made a file, on the disk that the nodes share."""
        limit = self._step.settings.number("AWAIT")
        for _ in range(limit):
            if self._step.made(path):
                return
            time.sleep(1)
        if not self._step.made(path):
            raise StepError(
                f"the first node has not made {path} in {limit} seconds; see its log, and run this "
                "again"
            )
