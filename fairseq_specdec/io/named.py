"""Errors of the system name the file that they are about."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Give a file's name to the system's errors inside that have none.

    Python names the file where opening fails, and not where reading, writing or closing does.
    """
    try:
        yield
    except OSError as error:
        if error.errno and error.filename is None:
            error.filename = os.fspath(path)
        raise
