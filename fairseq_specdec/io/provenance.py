"""Where a result comes from: commands, commit, versions, machine, and hashes of files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from .atomic import PathLike

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def sha256(path: PathLike) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def digest_of(value: Any) -> str:
    """The SHA-256 of a JSON-serialisable value, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("utf-8")).hexdigest()


def commit(checkout: str = CHECKOUT) -> str:
    """The git commit of a checkout, with ``-dirty`` where it has changes; else ``"unknown"``.
    ``checkout``: its root folder; by default of the one that this file is in. An installed copy has
    none, even inside another project's checkout."""
    if not os.path.exists(os.path.join(checkout, ".git")):
        return "unknown"
    command = ["git", "-C", checkout, "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        said = subprocess.check_output([*command, "--exclude=*"], stderr=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return said.decode().strip()


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Releases of Python and of those packages that are imported or installed, by name: of the
    imported module, for that is what runs; else of the installed distribution."""
    given = {"python": platform.python_version()}
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            running = getattr(sys.modules.get(name), "__version__", None)
            given[name] = str(running or metadata.version(name.replace("_", "-")))
    return given


def origin(packages: Iterable[str]) -> dict[str, Any]:
    """What every record of a result holds: time (UTC, in ISO 8601), commit, and versions of
    ``packages``."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"time": now, "commit": commit(), "versions": versions(packages)}


def cpu() -> str:
    """The processor's name."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        if found := re.search(r"^model name\s*:\s*(.+)", lines.read(), re.MULTILINE):
            return found[1]
    return platform.processor() or platform.machine()


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
