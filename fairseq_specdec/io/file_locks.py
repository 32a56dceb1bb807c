"""Files that one process at a time holds; the kernel frees them however that process ends."""

import contextlib
import errno
import os
import pathlib
import socket
import time
from collections.abc import Iterator

from filelock import FileLock, Timeout

from fairseq_specdec.errors import UsageError

# Errors of a file system that has no locks.
UNSUPPORTED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def alone(path: str, owner: str) -> Iterator[None]:
    """Hold the file of this name, and remove it at the end; its folder is made where there is
    none. Nothing is held where the file system has no locks.

    Args:
        owner: flag and value that another process is working for, for the error.

    Raises:
        UsageError: another process holds it.
    """
    lock, file = FileLock(path, timeout=0, thread_local=False), pathlib.Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    gone = contextlib.suppress(FileNotFoundError)  # the folder may be removed with all in it
    try:
        lock.acquire()
        since = time.strftime("%Y-%m-%d %H:%M:%S %Z")
        with gone:
            file.write_text(f"process {os.getpid()} on {socket.gethostname()}, since {since}")
    except Timeout:
        holder = ""
        with gone:
            holder = file.read_text()
        raise UsageError(
            "",
            f"{owner} is being written by {holder or 'another process'}",
            "wait until it has ended, or choose another folder",
        ) from None
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    try:
        yield
    finally:
        if lock.is_locked:
            file.unlink(missing_ok=True)
            lock.release()
