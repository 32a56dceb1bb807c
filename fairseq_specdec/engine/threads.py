"""How many CPU threads share a large product."""

import torch

from fairseq_specdec.io.flag_values import Range, check_value

from .native.library import load

THREADS = Range(1, 1024, whole=True)  # that the native library takes


def set_threads(count: int) -> None:
    """Let so many threads share each large product, in torch and in the native library, for the
    whole process."""
    check_value("--threads", count, THREADS)
    torch.set_num_threads(count)
    library = load()
    if library is not None:
        library.set_threads(count)
