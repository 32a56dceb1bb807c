"""Files that one process at a time holds; the kernel frees them however that process ends."""

import contextlib
import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator

from fairseq_specdec.errors import UsageError

# Errors of flock on a file system that has no locks.
UNSUPPORTED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


def this_process() -> str:
    """The words that name this process as the holder of a lock."""
    since = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    return f"process {os.getpid()} on {socket.gethostname()}, since {since}"


def lock_file(path: str, wait: bool = False, create: bool = True) -> int:
    """A descriptor of the file of this name, locked for this process alone.

    Args:
        wait: until its holder has unlocked it.
        create: it, where there is none.

    Raises:
        BlockingIOError: another process has it.
        FileNotFoundError: there is none, or no such folder.
        OSError: the file system has no locks.
    """
    while True:
        handle = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            named: os.stat_result | None = os.stat(path)
        except FileNotFoundError:
            named = None
        except BaseException:
            os.close(handle)
            raise
        # The last owner may have renamed or removed it between the two calls: then this is not it.
        if named is not None and os.path.samestat(named, os.fstat(handle)):
            return handle
        os.close(handle)


def unlock(handle: int) -> None:
    """Unlock and close. Closing alone would not unlock it for reader processes forked from this."""
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


@contextlib.contextmanager
def alone(path: str, owner: str) -> Iterator[None]:
    """Hold the file of this name, and remove it at the end. Nothing is held where the file system
    has no locks.

    Args:
        owner: flag and value that another process is working for, for the error.

    Raises:
        ValueError: another process holds it.
    """
    handle: int | None = None
    try:
        handle = lock_file(path)
    except BlockingIOError:
        with open(path, encoding="utf-8") as stream:
            holder = stream.read() or "another process"
        raise UsageError(
            "", f"{owner} is being written by {holder}", "wait until it has ended"
        ) from None
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
    try:
        if handle is not None:
            os.ftruncate(handle, 0)
            os.write(handle, this_process().encode("utf-8"))
        yield
    finally:
        if handle is not None:
            os.remove(path)
            unlock(handle)
