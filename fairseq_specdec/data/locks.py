"""Which processes distil into a destination: one for each shard of one run, and no others.

Each holds a ``flock`` on ``OUT.parts/shard-I-of-N.lock``, in which it says who it is. The kernel
frees the lock however the process ends, so the file of a killed one is taken over.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shutil
import socket
import time
from typing import Any, Dict, Iterator, NoReturn, Optional

from ..io.file_locks import lock_file, unlock
from .files import DistillError
from .plan import Shard

logger = logging.getLogger(__name__)

GUARD = "guard.lock"
SHARD = "shard-"
END = ".lock"
# What flock says on a file system that has no locks.
UNSUPPORTED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def _guarded(home: str) -> Iterator[None]:
    """One process at a time enters or leaves ``home``, which is made where it does not exist."""
    while True:
        os.makedirs(home, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # another process, the last, has removed it
            guard = lock_file(os.path.join(home, GUARD), wait=True)
            break
    try:
        yield
    finally:
        unlock(guard)


def _others(home: str, but: str = "") -> Iterator[Dict[str, Any]]:
    """What the holders of locks say of themselves; the files of dead ones are removed."""
    for name in sorted(os.listdir(home)):
        if not (name.startswith(SHARD) and name.endswith(END)) or name == but:
            continue
        path = os.path.join(home, name)
        try:
            handle = lock_file(path, create=False)
        except FileNotFoundError:
            continue
        except BlockingIOError:
            yield _said(path)
        else:
            os.remove(path)
            unlock(handle)


def _said(path: str) -> Dict[str, Any]:
    with open(path, encoding="utf-8") as stream:
        said: Dict[str, Any] = json.load(stream)
    return said


def _refuse(destination: str, holder: Dict[str, Any]) -> NoReturn:
    raise DistillError(
        f"--dest: {destination} is being written by process {holder['pid']} on {holder['host']}, "
        f"since {holder['since']} (shard {holder['rank']}/{holder['world']}); wait until it has "
        "ended, or choose another directory"
    )


def _name(shard: Shard) -> str:
    return f"{SHARD}{shard.rank}-of-{shard.world}{END}"


def _enter(destination: str, home: str, digest: str, shard: Shard) -> int:
    """Lock the shard, unless a process is at work that excludes this one.

    Raises:
        DistillError: who it is.
        FileNotFoundError: a process that published has just removed ``home``.
    """
    path = os.path.join(home, _name(shard))
    mine = {"digest": digest, "rank": shard.rank, "world": shard.world}
    mine.update(host=socket.gethostname(), pid=os.getpid())
    mine["since"] = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    with _guarded(home):
        for other in _others(home, _name(shard)):
            if (other["digest"], other["world"]) != (digest, shard.world):
                _refuse(destination, other)
        try:
            handle = lock_file(path)
        except BlockingIOError:
            _refuse(destination, _said(path))
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps(mine).encode("utf-8"))
    return handle


def _entered(destination: str, home: str, digest: str, shard: Shard) -> Optional[int]:
    """As ``_enter``; None where the file system has no locks."""
    while True:
        try:
            return _enter(destination, home, digest, shard)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise DistillError(
                    f"--dest: cannot write {home} ({error.strerror}); choose a directory you may "
                    "write beside"
                ) from error
            logger.warning(
                "--dest: the file system of %s has no locks (%s); see to it that no two processes "
                "distil the same shard",
                home,
                error.strerror,
            )
            return None


def _leave(home: str, shard: Shard, handle: int) -> None:
    """Unlock the shard; ``home`` goes too where nothing is left in it."""
    path = os.path.join(home, _name(shard))
    if not os.path.isdir(home):  # published, and removed with all in it
        unlock(handle)
        return
    with _guarded(home):
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path), os.fstat(handle)):
                os.remove(path)
        unlock(handle)
        if os.listdir(home) == [GUARD]:
            shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def at_work(destination: str, home: str, digest: str, shard: Shard) -> Iterator[None]:
    """Be the one process that distils this shard into ``destination``.

    Others may distil other shards of the same run meanwhile: the same settings, cut into as many.

    Args:
        destination: ``--dest``, for messages.
        home: ``OUT.parts``.
        digest: of the settings.
        shard: this process's.

    Raises:
        DistillError: who is at work there; or the place cannot be written.
    """
    handle = _entered(destination, home, digest, shard)
    try:
        yield
    finally:
        if handle is not None:
            _leave(home, shard, handle)


def remove_unless_at_work(home: str) -> None:
    """Delete what earlier runs left, unless one is at work there."""
    if not os.path.isdir(home):
        return
    with _guarded(home):
        if not any(_others(home)):
            shutil.rmtree(home, ignore_errors=True)
