"""Energy that decoding takes on a GPU, as Xia et al. 2023 count it (appendix F)."""

import contextlib
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator

from benchmark import Benchmark
from launch import Devices
from measure import collect
from models import WORDS_AND_SIZES, decode
from step import Step

PUE = 1.1  # power usage effectiveness, the paper's
SAMPLER = (
    "nvidia-smi", "--query-gpu=power.draw", "--format=csv,noheader,nounits", "--loop-ms=200",
)  # fmt: skip


@contextlib.contextmanager
def sampled(gpu: str) -> Iterator[dict[str, float]]:
    """The mean power in ``watts`` that the driver reports of a GPU (its number) meanwhile, the
    ``hours``, and the energy ``wh``."""
    figures: dict[str, float] = {}
    started = time.perf_counter()
    with subprocess.Popen([*SAMPLER, f"--id={gpu}"], stdout=subprocess.PIPE, text=True) as sampler:
        try:
            yield figures
        finally:
            sampler.terminate()
            text = sampler.communicate()[0]
    figures["hours"] = (time.perf_counter() - started) / 3600
    figures["watts"] = statistics.mean(map(float, text.split()))
    figures["wh"] = figures["watts"] * figures["hours"] * PUE


def energy_step(step: Step) -> None:
    """An action: decode with each system of ``energy_set``, loading included: energy.json."""
    bench, devices = Benchmark(step), Devices(step)
    group = collect(step, bench).get(step["energy_set"])
    if group is None:
        return
    if devices.cpu or not (step.dry or shutil.which(SAMPLER[0])):
        step.log("energy is not measured: it needs a GPU and nvidia-smi")
        return
    folder, gpu = bench.out / "energy", step.environment.get("CUDA_VISIBLE_DEVICES") or "0"
    inputs, output = [*group.used, bench.test_file(group.split)], bench.out / "energy.json"
    record = folder / "provenance.json"
    if step.finished(record, inputs):
        return
    made = {}
    for name, words, _ in group.systems:
        system = f"{group.name}.{name.replace(' ', '_')}"
        power = contextlib.nullcontext({}) if step.dry else sampled(gpu.split(",")[0])
        with power as made[system]:
            decode(
                step, system, group.verifier, *words, *WORDS_AND_SIZES, corpus=bench.bin,
                pair=(bench.src, bench.tgt), folder=folder, subset=group.split, device=devices.half,
            )  # fmt: skip
    step.call("fairseq_specdec.io.atomic.write_json", output, made)
    step.record(record, inputs, output)
