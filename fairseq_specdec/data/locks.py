"""Which processes work for a destination: one for each shard of one run, and no others.

Each holds a ``flock`` on ``OUT.parts/shard-I-of-N.lock``, which names its holder. The kernel
frees the lock however the process ends, so the file of a killed one is taken over.
"""

import contextlib
import json
import logging
import os
import shutil
from collections.abc import Iterator
from typing import Any

from fairseq_specdec.errors import UsageError

from ..io.file_locks import UNSUPPORTED, lock_file, this_process, unlock
from .plan import Shard

logger = logging.getLogger(__name__)

GUARD = "guard.lock"
SHARD = "shard-"
END = ".lock"


@contextlib.contextmanager
def guarded(home: str) -> Iterator[bool]:
    """One process at a time enters, publishes or leaves; ``home`` is made where there is none.

    Yields:
        whether that is so: False where the file system has no locks.
    """
    guard: int | None = None
    while True:
        os.makedirs(home, exist_ok=True)
        try:
            guard = lock_file(os.path.join(home, GUARD), wait=True)
        except FileNotFoundError:  # another process, the last, has removed it
            continue
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
        break
    try:
        yield guard is not None
    finally:
        if guard is not None:
            unlock(guard)


def _others(home: str, but: str = "") -> Iterator[dict[str, Any]]:
    """The holders of locks, as ``_holder``; the files of dead ones are removed."""
    for name in sorted(os.listdir(home)):
        if not (name.startswith(SHARD) and name.endswith(END)) or name == but:
            continue
        path = os.path.join(home, name)
        try:
            handle = lock_file(path, create=False)
        except FileNotFoundError:
            continue
        except BlockingIOError:
            yield _holder(path)
        else:
            os.remove(path)
            unlock(handle)


def _holder(path: str) -> dict[str, Any]:
    """Who holds a lock: ``who``, and of which ``run``, its digest and number of shards."""
    with open(path, encoding="utf-8") as stream:
        holder: dict[str, Any] = json.load(stream)
    return holder


def _name(shard: Shard) -> str:
    return f"{SHARD}{shard.rank}-of-{shard.world}{END}"


def _enter(destination: str, home: str, digest: str, shard: Shard) -> int | None:
    """Lock the shard, unless a process is at work that excludes this one. Returns None where the
    file system has no locks."""
    who = this_process()
    mine = {"run": [digest, shard.world], "who": f"{who} (shard {shard.rank}/{shard.world})"}
    path = os.path.join(home, _name(shard))
    with guarded(home) as has_locks:
        if not has_locks:
            return None
        excluding = [other for other in _others(home, _name(shard)) if other["run"] != mine["run"]]
        try:
            handle = -1 if excluding else lock_file(path)
        except BlockingIOError:
            excluding = [_holder(path)]
        if excluding:
            raise UsageError(
                "--dest",
                f"{destination} is being written by {excluding[0]['who']}",
                "wait until it has ended, or choose another directory",
            )
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps(mine).encode("utf-8"))
    return handle


@contextlib.contextmanager
def at_work(destination: str, home: str, digest: str, shard: Shard) -> Iterator[None]:
    """Be the one process that makes this shard for ``destination``.

    Others may make other shards of the same run meanwhile: the same settings, cut into as many.

    Args:
        home: ``OUT.parts``; removed at the end if nothing is left in it.
    """
    try:
        handle = _enter(destination, home, digest, shard)
    except OSError as error:
        raise UsageError(
            "--dest",
            f"cannot write {home} ({error.strerror})",
            "choose a directory you may write beside",
        ) from error
    if handle is None:
        logger.warning(
            "--dest: the file system of %s has no locks; see to it that no two processes make the "
            "same shard, and delete the folder after the last has ended",
            home,
        )
    try:
        yield
    finally:
        if handle is not None:
            with guarded(home):
                with contextlib.suppress(FileNotFoundError):
                    os.remove(os.path.join(home, _name(shard)))
                unlock(handle)
                if os.listdir(home) == [GUARD]:
                    shutil.rmtree(home, ignore_errors=True)


def remove_unless_at_work(home: str) -> None:
    """Delete what earlier runs left, unless one is at work there."""
    if os.path.isdir(home):
        with guarded(home) as has_locks:
            if has_locks and not any(_others(home)):
                shutil.rmtree(home, ignore_errors=True)
