"""The variants that the engine's sources are compiled for, for setup.py and library.py alike.

Standard library only, and nothing of the package: setup.py runs this file before the package can be
imported.
"""

import hashlib
import pathlib
from typing import NamedTuple

PROBE = "_cpu.so"
# After the object proper, so that a cut or altered file is known before the loader maps it.
SEAL = b"fairseq_specdec\0"
SEAL_SIZE = len(SEAL) + hashlib.sha256().digest_size


# Fused multiply-adds wherever a formula allows them, so that every compiler rounds alike.
FLAGS = (
    *("-std=c++17", "-O3", "-g0", "-ffp-contract=fast", "-fno-math-errno"),
    *("-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-psabi"),
)


class Variant(NamedTuple):
    """One set of instructions; ``machines`` as platform.machine() names them."""

    name: str
    machines: tuple[str, ...]
    flags: tuple[str, ...]

    @property
    def file(self) -> str:
        return f"_{self.name}.so"


_X86, _ARM = ("x86_64", "AMD64"), ("aarch64", "arm64")
_V3, _V4 = "-march=x86-64-v3", "-march=x86-64-v4"

# Worst first. Bit i of the probe's answer (src/cpu.cpp) tells whether the processor runs number i.
VARIANTS = (
    Variant("x86_64_v3", _X86, (_V3,)),
    Variant("avx_vnni", _X86, (_V3, "-mavxvnni")),
    Variant("avx512", _X86, (_V4,)),
    Variant("avx512_vnni_bf16", _X86, (_V4, "-mavx512vnni", "-mavx512bf16")),
    Variant("aarch64", _ARM, ("-march=armv8-a",)),
    Variant("aarch64_dotprod", _ARM, ("-march=armv8.2-a+dotprod",)),
)


def digest(sources: pathlib.Path) -> str:
    """Twelve digits of the sources' names and contents; objects carry it in their stamp."""
    total = hashlib.sha256()
    for path in sorted(sources.iterdir()):
        if path.suffix in (".cpp", ".h"):
            total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:12]


def seal(path: pathlib.Path) -> None:
    """Append the digest of a finished object to it."""
    content = path.read_bytes()
    path.write_bytes(content + SEAL + hashlib.sha256(content).digest())


def is_sealed(path: pathlib.Path) -> bool:
    """Whether a file is whole, unaltered and sealed by ``seal``."""
    content = path.read_bytes()
    body, end = content[:-SEAL_SIZE], content[-SEAL_SIZE:]
    return end == SEAL + hashlib.sha256(body).digest()
