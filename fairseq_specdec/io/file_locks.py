"""Files that one process at a time holds; the kernel frees them however that process ends."""

import contextlib
import os
from collections.abc import Iterator

from filelock import FileLock, Timeout

from fairseq_specdec.errors import UsageError


@contextlib.contextmanager
def alone(path: str, owner: str) -> Iterator[None]:
    """Hold the file of this name, and remove it at the end. ``owner``: flag and value that the
    holder works for. Raises UsageError: another process holds it."""
    lock = FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        remedy = "wait until it has ended, or choose another folder"
        raise UsageError("", f"{owner} is being written by another process", remedy) from None
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):  # its folder may be gone
            os.remove(path)
        lock.release()
