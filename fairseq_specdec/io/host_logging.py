"""Import fairseq without changing the logging of the program that imports it."""

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def host_logging_kept() -> Iterator[None]:
    """Keep modules that are imported meanwhile from configuring the root logger.

    Fault: importing fairseq calls ``logging.basicConfig(level=logging.DEBUG)``, which gives the
    root logger a handler and that level. Versions: all.

    ``basicConfig`` does nothing where the root logger has a handler. It gets Python's own handler
    of last resort, so that what other threads log meanwhile is shown as before.
    """
    root = logging.getLogger()
    stand_in = None if root.handlers else logging.lastResort or logging.NullHandler()
    if stand_in is not None:
        root.addHandler(stand_in)
    try:
        yield
    finally:
        if stand_in is not None:
            root.removeHandler(stand_in)
