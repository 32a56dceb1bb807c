"""The available devices, and processes that work together on them: under torchrun, or one process.

As in the papers: fp16 where the GPU computes in it fast (V100 and later), else fp32 (P100). On the
processor fp32, or with CPU_PRECISION=bf16 bf16 if it has instructions for that.
"""

import pathlib
import subprocess
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


def available_devices(cpu: bool, bf16: bool) -> tuple[int, str, str]:
    """How many processes, in which precision, on which device."""
    if not cpu:
        import torch

        count = torch.cuda.device_count()
        slowest = min((torch.cuda.get_device_capability(i) for i in range(count)), default=None)
        if slowest is not None:
            half = "fp16" if slowest >= FAST_HALF else "fp32"
            return count, half, torch.cuda.get_device_name(0)
    return 1, "bf16" if bf16 and computes_in_bf16() else "fp32", "cpu"


def devices_of_process(step: Step, bf16: bool) -> tuple[int, str, str]:
    """The available devices, found by a process of its own: this one would hold on to the GPU."""
    code = f"import launch; print(*launch.available_devices(False, {bf16}), sep='\\n')"
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
        gpus: processes that work together.
        precision: fp16, fp32 or bf16.
    """

    def __init__(self, step: Step) -> None:
        settings, self._step = step.settings, step
        bf16 = settings.get("CPU_PRECISION") == "bf16"
        cpu = step["DEVICE"] == "cpu"
        found = available_devices(True, bf16) if cpu else devices_of_process(step, bf16)
        gpus, precision, name = found
        self.cpu = cpu or (step["DEVICE"] == "auto" and name == "cpu")
        given = settings.get("GPUS") or str(gpus)
        if not given.isdigit() or given == "0":
            raise StepError(f"GPUS: {given} is no number from 1")
        self.gpus = int(given)
        self.precision = settings.get("PRECISION") or precision
        threads = settings.number("THREADS")
        if self.cpu and self.gpus > 1:
            threads = max(1, threads // self.gpus)
        step.environment.update(ALLOCATION, OMP_NUM_THREADS=str(threads))
        step.log(f"{self.gpus} processes, {self.precision}, {name}")

    @property
    def half(self) -> list[str]:
        """Flags of a fairseq command that decodes: --cpu, --fp16 or neither."""
        if self.cpu:
            return ["--cpu"]
        return ["--fp16"] if self.precision == "fp16" else []

    def launch(self, *words: Any, log: pathlib.Path) -> None:
        """Run Python, under torchrun where there are several processes."""
        python: list[Any] = [self._step.python]
        if self.gpus > 1:
            python = ["torchrun", "--standalone", "--nproc_per_node", self.gpus]
        name = words[1] if words[0] == "-m" else pathlib.Path(str(words[0])).stem
        self._step.run(*python, *words, log=log, failure=f"{name} failed: see {log}")
