"""What generators of the same models share, such as packed weights."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from fairseq_specdec.io.forks import Lock

T = TypeVar("T")


def anew(key: Hashable, make: Callable[[], T]) -> T:
    """What ``make`` gives, shared with nobody; called as a ``Once``."""
    return make()


class Once:
    """Makes each thing once, for all threads."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Any] = {}
        self._lock = Lock()  # making one may take others

    def __call__(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` gave for this key."""
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
            made: T = self._made[key]
            return made
