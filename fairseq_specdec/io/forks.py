"""What a forked process must not take over from threads that only its parent has."""

import contextlib
import os
import threading
import weakref
from typing import Any

# ``renew`` of each is called in every process that this one forks, as long as it is used.
RENEWED: "weakref.WeakSet[Any]" = weakref.WeakSet()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=lambda: [each.renew() for each in list(RENEWED)])


class Lock:
    """A lock that is free in a forked process, whoever held it. A thread may take it twice."""

    def __init__(self) -> None:
        self.renew()
        RENEWED.add(self)

    def renew(self) -> None:
        """Free it."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(RuntimeError):  # it was taken before a fork
            self._lock.release()
