"""What a figure was measured on."""

from __future__ import annotations

import importlib
import os
import platform
import subprocess
import sys
from typing import Dict

import torch

import fairseq_specdec


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
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
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
