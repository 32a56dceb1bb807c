"""What a forked process must not take over from threads that only its parent has."""

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

_renewed: "weakref.WeakSet[Any]" = weakref.WeakSet()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=lambda: [owner.renew() for owner in list(_renewed)])


def renew_in_children(owner: Any) -> None:
    """Call ``owner.renew()`` in every process that this one forks, as long as there is an owner."""
    _renewed.add(owner)


class Lock:
    """A lock that is free in a forked process, whoever held it. ``kind``: ``threading.Lock``, or
    ``threading.RLock`` where a thread may take it twice."""

    def __init__(self, kind: Callable[[], Any] = threading.Lock) -> None:
        self._kind = kind
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Free it."""
        self._lock = self._kind()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: Any) -> None:
        with contextlib.suppress(RuntimeError):  # it was taken before a fork
            self._lock.release()
