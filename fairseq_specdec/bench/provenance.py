"""What a figure was measured on."""

from __future__ import annotations

import importlib
import os
import platform
import shlex
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Sequence

import torch

import fairseq_specdec
from fairseq_specdec.data.files import sha256
from fairseq_specdec.verifier.linear import computes_in_bf16


def commit() -> str:
    """The checkout's commit, with a mark for uncommitted changes; ``unknown`` outside git."""
    here = os.path.dirname(os.path.abspath(fairseq_specdec.__file__))
    command = ["git", "-C", here, "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def processor() -> str:
    """The CPU's or GPU's name."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else cpu()


def cpu() -> str:
    """The CPU's name."""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def settings() -> Dict[str, str]:
    """Versions, commit, device and threads, to stand beside every figure."""
    found = {
        "fairseq_specdec": f"{fairseq_specdec.__version__} ({commit()})",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": processor(),
        "threads": str(torch.get_num_threads()),
        "command": " ".join(sys.argv),
    }
    for name in ("fairseq", "numpy", "sacrebleu"):
        found[name] = str(getattr(importlib.import_module(name), "__version__", "unknown"))
    return found


def _memory_bytes() -> int:
    """The machine's memory; 0 where it does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine(cuda: bool) -> Dict[str, Any]:
    """What the figures were measured on.

    Args:
        cuda: whether that was the GPU.
    """
    capability = getattr(getattr(torch.backends, "cpu", None), "get_cpu_capability", None)
    return {
        "device": processor() if cuda else cpu(),
        "cpu": cpu(),
        "platform": platform.platform(),
        "cores": _cores(),
        "memory_bytes": _memory_bytes(),
        "cpu_capability": capability() if capability else "unknown",
        "computes_in_bf16": computes_in_bf16(),
        "onednn": torch.backends.mkldnn.is_available(),
        "mkl": torch.backends.mkl.is_available(),
        "cuda": torch.version.cuda if cuda else None,
    }


def versions() -> Dict[str, str]:
    """Releases of what took part."""
    found = {
        "fairseq_specdec": fairseq_specdec.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    for name in ("fairseq", "numpy", "sacrebleu"):
        found[name] = str(getattr(importlib.import_module(name), "__version__", "unknown"))
    return found


def record(
    program: str,
    words: Sequence[str],
    checkpoints: Sequence[str],
    cuda: bool,
    engines: Optional[Dict[str, str]] = None,
) -> Dict[str, Any]:
    """All that a figure depends on and that another run could differ in.

    Args:
        program: the console script's name.
        words: its command line.
        checkpoints: files whose checksums are taken.
        cuda: whether a GPU did the work.
        engines: releases of other engines that took part.
    """
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA")
    return {
        "command": " ".join(shlex.quote(word) for word in [program, *words]),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "machine": machine(cuda),
        "versions": dict(versions(), **(engines or {})),
        "load_average": load(),
        "threads": torch.get_num_threads(),
        "environment": {name: os.environ[name] for name in names if name in os.environ},
        "checkpoints": {path: "sha256:" + sha256(path) for path in sorted(set(checkpoints))},
    }


def load() -> Optional[List[float]]:
    """The machine's load averages over 1, 5 and 15 minutes; None where it does not tell."""
    try:
        return [round(each, 2) for each in os.getloadavg()]
    except (AttributeError, OSError):
        return None


def line(facts: Dict[str, Any]) -> str:
    """The most telling facts of :func:`record` in one line, to stand under a table."""
    telling = {"device": facts["machine"]["device"], "threads": facts["threads"]}
    telling.update(facts["versions"], commit=facts["commit"])
    return "; ".join(f"{key} {value}" for key, value in telling.items())
