"""Where a result comes from: commands, commit, versions, machine, and hashes of files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Any

from .named import naming

PIECE = 1 << 20  # bytes read at a time
CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UNKNOWN = "unknown"


def sha256(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with naming(path), open(path, "rb") as stream:
        for piece in iter(lambda: stream.read(PIECE), b""):
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
        return UNKNOWN
    command = ["git", "-C", checkout, "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(
            [*command, "--exclude=*"], check=True, capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN
    return done.stdout.strip()


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Releases of Python and of those packages that are imported or installed, by name: of the
    imported module, for that is what runs; else of the installed distribution."""
    given = {"python": platform.python_version()}
    for name in packages:
        given[name] = str(getattr(sys.modules.get(name), "__version__", ""))
        with contextlib.suppress(metadata.PackageNotFoundError):
            given[name] = given[name] or metadata.version(name.replace("_", "-"))
    return {name: version for name, version in given.items() if version}


def now() -> str:
    """The time in UTC, to the second, in ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def command_line(words: Sequence[str]) -> str:
    """A command, quoted for a shell."""
    return " ".join(map(shlex.quote, words))


def origin(packages: Iterable[str]) -> dict[str, Any]:
    """What every record of a result holds: time, commit, and versions of ``packages``."""
    return {"time": now(), "commit": commit(), "versions": versions(packages)}


def cpu() -> str:
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """The machine's memory; 0 where it is not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0


def load() -> list[float] | None:
    """The machine's load averages over 1, 5 and 15 minutes; None where they are not known."""
    try:
        return [round(each, 2) for each in os.getloadavg()]
    except (AttributeError, OSError):
        return None
