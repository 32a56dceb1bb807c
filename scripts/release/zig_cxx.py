"""A C++ compiler for setup.py that needs no old system to build for one.

Usage: python scripts/release/zig_cxx.py TARGET [argument of the compiler ...]

Runs zig's clang (``ziglang`` of PyPI) for TARGET, such as ``x86_64-linux-gnu.2.28``: that release
of glibc and none of its newer symbols, LLVM's C++ library inside. GCC's names of instruction sets,
which setup.py uses, become zig's.
"""

import os
import sys

INSTRUCTION_SETS = {
    "-march=x86-64-v3": "-march=x86_64_v3",
    "-march=x86-64-v4": "-march=x86_64_v4",
    "-march=armv8-a": "-mcpu=generic",
    "-march=armv8.2-a+dotprod": "-mcpu=generic+v8_2a+dotprod",
}


def command(target, words):
    """The command line of zig."""
    given = [INSTRUCTION_SETS.get(word, word) for word in words]
    if "-shared" in given:
        given.append("-s")  # symbols of the C++ library are half of an object
    return [sys.executable, "-m", "ziglang", "c++", "-target", target, *given]


if __name__ == "__main__":
    words = command(sys.argv[1], sys.argv[2:])
    os.execv(words[0], words)
