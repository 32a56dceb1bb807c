"""``--config``: a file of several pairs, each with the flags of the command line as its fields."""

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any

import yaml

from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.flag_values import flag_of


@contextlib.contextmanager
def blamed(place: str) -> Iterator[None]:
    """Name the place, file and entry, and the field in errors."""
    try:
        yield
    except UsageError as error:
        raise UsageError(place, error.original.reworded(lambda name: name)) from error


def entries(file: str, parser: argparse.ArgumentParser) -> dict[str, argparse.Namespace]:
    """The pairs of a file in YAML, a list of mappings, each by its place. ``parser``: its long
    flags are the fields. Raises OSError or UsageError: it cannot be read, or is no such list."""

    def refuse(message: str) -> None:
        raise UsageError("", message.removeprefix("argument --"))

    parser.error = refuse  # type: ignore[assignment, method-assign]
    with open(file, encoding="utf-8", errors="replace") as stream, blamed(f"--config {file}"):
        try:
            # Every value is a string, as on the command line: no stays Norwegian.
            content: Any = yaml.BaseLoader(stream).get_single_data()
        except yaml.YAMLError as error:
            raise UsageError("", f"is no YAML: {error}") from error
        if not isinstance(content, list) or not content:
            problem = "expected a list of pairs, each '- path: FILE' and more fields"
            raise UsageError("", problem)
    found = {}
    for number, fields in enumerate(content, 1):
        place = f"--config {file}: entry {number}"
        with blamed(place):
            found[place] = parser.parse_args(_words(fields, parser))
    return found


def _words(fields: Any, parser: argparse.ArgumentParser) -> list[str]:
    """The flags of an entry."""
    if not isinstance(fields, dict):
        raise UsageError("", "expected fields, as in 'path: FILE'")
    switches = [name for each in parser._actions if each.nargs == 0 for name in each.option_strings]
    words = []
    for name, value in fields.items():
        flag = flag_of(str(name))
        if not isinstance(value, str) or not value:
            raise UsageError(name, "expected one value")
        if flag in switches and value in ("true", "yes"):
            words.append(flag)
        elif flag not in switches or value not in ("false", "no"):
            words.append(f"{flag}={value}")
    return words
