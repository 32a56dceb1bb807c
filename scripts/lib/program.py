"""What the programs of the recipes share: how they are run, read their words, and fail.

``python program.py NAME WORDS`` runs the ``main`` of a module beside this file, or on the path.
"""

import argparse
import functools
import importlib
import logging
import pathlib
import sys
from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Type

Options = argparse.Namespace
Argument = Tuple[Tuple[str, ...], Dict[str, Any]]


def argument(*names: str, **settings: Any) -> Argument:
    """An argument of a command, as for argparse's ``add_argument``."""
    return names, settings


def _parser(name: str, description: str, own: Sequence[Argument]) -> argparse.ArgumentParser:
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=name, description=description, formatter_class=kind)
    for names, settings in own:
        parser.add_argument(*names, **settings)
    return parser


def command(
    *own: Argument, errors: Sequence[Type[Exception]] = ()
) -> Callable[[Callable[[Any], None]], Callable[..., int]]:
    """Make a program of ``main(options)``: ``main(words)`` returns its exit status.

    ``main`` stands last in its file, so that running the file runs it.

    The help begins with the module's docstring. Log records go to stderr; an error ends the program
    with one line that starts with the module's name.

    Args:
        own: the program's arguments.
        errors: what is reported besides OSError and ValueError; anything else is a traceback.
    """

    def wrap(main: Callable[[Any], None]) -> Callable[..., int]:
        module = main.__globals__
        name = pathlib.Path(module["__file__"]).stem

        @functools.wraps(main)
        def wrapped(words: Optional[Sequence[str]] = None) -> int:
            logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
            options = _parser(name, module["__doc__"], own).parse_args(words)
            try:
                main(options)
            except (OSError, ValueError, *errors) as error:
                logging.getLogger(name).error("%s: %s", name, error)
                return 1
            return 0

        if module["__name__"] == "__main__":  # the program's own file was run
            sys.exit(wrapped())
        return wrapped

    return wrap


if __name__ == "__main__":
    sys.exit(importlib.import_module(sys.argv[1]).main(sys.argv[2:]))
