"""How many CPU threads share a large product."""

from __future__ import annotations

import torch

from .native.library import load

MOST = 1024  # that the native library takes


def check_threads(count: int) -> None:
    """Refuse a number of threads that cannot be.

    Raises:
        ValueError: naming the flag.
    """
    if not 1 <= count <= MOST:
        raise ValueError(f"--threads {count}: must be 1 to {MOST}")


def set_threads(count: int) -> None:
    """Let so many threads share each large product, in torch and in the native library, for the
    whole process.

    Raises:
        ValueError: as ``check_threads``.
    """
    check_threads(count)
    torch.set_num_threads(count)
    library = load()
    if library is not None:
        library.set_threads(count)
