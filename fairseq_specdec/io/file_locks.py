"""Files that one process at a time holds; the kernel frees them however that process ends."""

import contextlib
import errno
import os
import socket
import time
from collections.abc import Iterator

from filelock import FileLock, Timeout

from fairseq_specdec.errors import UsageError

# How often the folder is made anew that another process removes meanwhile.
ATTEMPTS = 100
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
    lock, holder = FileLock(path, thread_local=False), ""
    for attempt in range(ATTEMPTS):
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            lock.acquire(timeout=0)
        except Timeout:
            with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as stream:
                holder = stream.read()
            raise UsageError(
                "",
                f"{owner} is being written by {holder or 'another process'}",
                "wait until it has ended, or choose another folder",
            ) from None
        except (FileExistsError, FileNotFoundError):
            if attempt == ATTEMPTS - 1:
                raise
            continue
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
        break
    try:
        if lock.is_locked:
            with (
                contextlib.suppress(FileNotFoundError),
                open(path, "w", encoding="utf-8") as stream,
            ):
                since = time.strftime("%Y-%m-%d %H:%M:%S %Z")
                stream.write(f"process {os.getpid()} on {socket.gethostname()}, since {since}")
        yield
    finally:
        if lock.is_locked:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
            lock.release()
