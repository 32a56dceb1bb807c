"""Files that one process at a time holds; the kernel frees them however that process ends."""

import contextlib
import errno
import os
from collections.abc import Iterator

from filelock import FileLock, Timeout

from fairseq_specdec.errors import UsageError

# Errors of a file system that has no locks.
UNSUPPORTED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def alone(path: str, owner: str) -> Iterator[None]:
    """Hold the file of this name, and remove it at the end; its folder is made where there is
    none. Nothing is held where the file system has no locks. ``owner``: flag and value that the
    holder works for. Raises UsageError: another process holds it."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    lock = FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        remedy = "wait until it has ended, or choose another folder"
        raise UsageError("", f"{owner} is being written by another process", remedy) from None
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    try:
        yield
    finally:
        if lock.is_locked:
            with contextlib.suppress(FileNotFoundError):  # its folder may be gone
                os.remove(path)
            lock.release()
