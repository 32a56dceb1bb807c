"""What the programs of the recipes share: how they read their words, and how they fail."""

import argparse
import functools
import logging
import sys
from typing import Callable, Optional, Sequence, Type

Main = Callable[[Optional[Sequence[str]]], int]


def log_to_stderr() -> None:
    """Send log records of level INFO and above to stderr."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)


def make_parser(description: Optional[str]) -> argparse.ArgumentParser:
    """A parser whose help begins with the program's docstring, as it stands."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def reports(name: str, *errors: Type[Exception]) -> Callable[[Main], Callable[..., int]]:
    """For a ``main``: log to stderr; end on an error with one line that starts with ``name``.

    Args:
        name: of the program.
        errors: what it reports besides OSError and ValueError; anything else is a traceback.
    """

    def wrap(main: Main) -> Callable[..., int]:
        @functools.wraps(main)
        def wrapped(arguments: Optional[Sequence[str]] = None) -> int:
            log_to_stderr()
            try:
                return main(arguments)
            except (OSError, ValueError, *errors) as error:
                logging.getLogger(name).error("%s: %s", name, error)
                return 1

        return wrapped

    return wrap
