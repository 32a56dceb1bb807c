"""What a figure was measured on: the machine as torch sees it, and a run's record."""

import os
import platform
import re
from collections.abc import Sequence
from typing import Any

import torch

from fairseq_specdec.engine.backend import missing_engine
from fairseq_specdec.engine.eager.linear import computes_in_bf16
from fairseq_specdec.io import provenance

PACKAGES = ("fairseq_specdec", "torch", "fairseq", "numpy", "sacrebleu")


def machine(cuda: bool) -> dict[str, Any]:
    """What the figures were measured on: the GPU, or the processor."""
    capability = getattr(getattr(torch.backends, "cpu", None), "get_cpu_capability", None)
    return {
        "device": torch.cuda.get_device_name() if cuda else provenance.cpu(),
        "cpu": provenance.cpu(),
        "platform": platform.platform(),
        "cores": provenance.cores(),
        "memory_bytes": provenance.memory_bytes(),
        "cpu_capability": capability() if capability else "unknown",
        "computes_in_bf16": computes_in_bf16(),
        "onednn": torch.backends.mkldnn.is_available(),
        "mkl": torch.backends.mkl.is_available(),
        "missing_engine": "" if cuda else missing_engine(),
        "cuda": torch.version.cuda if cuda else None,
    }


def record(
    words: Sequence[str], checkpoints: Sequence[str], cuda: bool, engines: dict[str, str]
) -> dict[str, Any]:
    """All that a figure depends on and that another run could differ in."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")
    facts = provenance.origin(PACKAGES)
    facts["versions"].update(engines)
    return {
        "command": provenance.command_line(["specdec-bench", *words]),
        **facts,
        "machine": machine(cuda),
        "load_average": provenance.load(),
        "threads": torch.get_num_threads(),
        "environment": {name: os.environ[name] for name in names if name in os.environ},
        "checkpoints": {
            path: "sha256:" + provenance.sha256(path) for path in sorted(set(checkpoints))
        },
    }


def line(facts: dict[str, Any]) -> str:
    """The most telling facts of :func:`record` in one line, to stand under a table."""
    telling = {"device": facts["machine"]["device"], "threads": facts["threads"]}
    commit = re.sub(r"^([0-9a-f]{12})[0-9a-f]*", r"\1", facts["commit"])  # and whether it is dirty
    telling.update(facts["versions"], commit=commit)
    return "; ".join(f"{key} {value}" for key, value in telling.items())
