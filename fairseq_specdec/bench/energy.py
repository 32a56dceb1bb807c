"""Energy, where the device tells it: NVIDIA's through pynvml, a CPU's through RAPL."""

from __future__ import annotations

import glob
import importlib
import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch

from .timing import System

POWERCAP = "/sys/class/powercap"
SHORTEST = 1.0  # seconds: the devices' counters move some ten times a second


class Meter(NamedTuple):
    """A counter: what it counts, in words, and a function that gives the joules so far."""

    what: str
    read: Callable[[], float]


class Rapl:
    """The sum of the energy counters in the folders of the processor packages.

    They start again at their range: read at least once a range (ten minutes at full power).
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self.folders = list(folders)
        self.ranges = [self._number(f, "max_energy_range_uj") for f in self.folders]
        self.last = [self._number(f, "energy_uj") for f in self.folders]
        self.total = 0

    @staticmethod
    def _number(folder: str, name: str) -> int:
        with open(os.path.join(folder, name), encoding="ascii") as stream:
            return int(stream.read())

    def read(self) -> float:
        """Joules since this object was made."""
        now = [self._number(folder, "energy_uj") for folder in self.folders]
        for before, after, most in zip(self.last, now, self.ranges):
            self.total += after - before if after >= before else after - before + most
        self.last = now
        return self.total / 1e6


def of_cpu(powercap: str = POWERCAP) -> Optional[Meter]:
    """The processor's meter; None where the system has none or does not let us read it."""
    # Packages only: intel-rapl:0:1 is a part of intel-rapl:0.
    folders = sorted(f for f in glob.glob(os.path.join(powercap, "intel-rapl:*"))
                     if os.path.basename(f).count(":") == 1)  # fmt: skip
    packages: List[str] = []
    for folder in folders:
        try:
            with open(os.path.join(folder, "name"), encoding="ascii") as stream:
                if stream.read().startswith("package"):
                    packages.append(folder)
        except OSError:
            continue  # some kernels list zones that they do not show
    try:
        return Meter("the processor packages (RAPL)", Rapl(packages).read) if packages else None
    except (OSError, ValueError):  # only root may read the counters
        return None


def of_gpu() -> Optional[Meter]:
    """The meter of torch's current GPU; None without pynvml, or where the GPU has none."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return None
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    number = getattr(properties, "uuid", None)  # torch before 2.4 has none
    try:
        nvml.nvmlInit()
        if number is not None:
            handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{number}")
        elif nvml.nvmlDeviceGetCount() == 1:
            handle = nvml.nvmlDeviceGetHandleByIndex(0)
        else:
            return None
        nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except nvml.NVMLError:
        return None

    def joules() -> float:
        return float(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1000

    return Meter("the GPU (NVML)", joules)


def find(cuda: bool) -> Optional[Meter]:
    """The meter of the device that decodes, or None."""
    return of_gpu() if cuda else of_cpu()


def a_sentence(
    systems: Sequence[System],
    batches: Sequence[Dict[str, Any]],
    meter: Meter,
    seed: int,
) -> Dict[str, float]:
    """Joules a sentence by system, each decoding all batches by itself, for ``SHORTEST`` seconds at
    least; what ``run_paired`` measured stays as it is (arguments as there)."""
    found = {}
    for system in systems:
        passes = 0
        began, before = time.perf_counter(), meter.read()
        while passes == 0 or time.perf_counter() - began < SHORTEST:
            for sample in batches:
                system.decode(sample, None, seed)
                meter.read()
            passes += 1
        spent = meter.read() - before
        found[system.name] = spent / (passes * sum(len(sample["id"]) for sample in batches))
    return found
