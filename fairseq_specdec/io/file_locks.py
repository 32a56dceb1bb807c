"""Files that one process at a time holds; the kernel frees them however that process ends."""

import fcntl
import os
from typing import Optional


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
            named: Optional[os.stat_result] = os.stat(path)
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
