"""``--config``: a file of several pairs, each with the flags of the command line as its fields."""

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from fairseq_specdec.errors import UsageError


class Entry(NamedTuple):
    """A pair of the file. ``place``: file and number, for messages. ``words``: its fields as
    flags."""

    place: str
    words: list[str]

    @contextlib.contextmanager
    def blamed(self) -> Iterator[None]:
        """Name file, entry and field in errors."""
        try:
            yield
        except UsageError as error:
            raise UsageError(self.place, error.original.reworded(lambda name: name)) from error

    def parsed(self, parser: argparse.ArgumentParser) -> argparse.Namespace:
        """The fields as a command line."""

        def refuse(message: str) -> None:
            raise UsageError("", message.removeprefix("argument --"))

        parser.error = refuse  # type: ignore[assignment, method-assign]
        return parser.parse_args(self.words)


def fields_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    """The flags of a parser, by their names without dashes in front."""
    known = parser._option_string_actions
    return {name[2:]: known[name] for name in known if name.startswith("--")}


def entries(file: str, parser: argparse.ArgumentParser) -> list[Entry]:
    """The pairs of a file in YAML: a list of mappings. Raises OSError: it cannot be read. Raises
    ValueError: it is no such list, or a field is unknown."""
    place = f"--config {file}"
    with open(file, encoding="utf-8", errors="replace") as stream:
        try:
            # Every value is a string, as on the command line: no stays Norwegian.
            content: Any = yaml.BaseLoader(stream).get_single_data()
        except yaml.YAMLError as error:
            reason = " ".join(str(error).split())
            raise UsageError(place, f"is no YAML: {reason[:200]}") from error
    if not isinstance(content, list) or not content:
        raise UsageError(
            f"--config {file}", "expected a list of pairs, each '- path: FILE' and more fields"
        )
    return [
        _entry(f"--config {file}: entry {i}", each, parser) for i, each in enumerate(content, 1)
    ]


def _entry(place: str, fields: Any, parser: argparse.ArgumentParser) -> Entry:
    if not isinstance(fields, dict):
        raise UsageError(place, "expected fields, as in 'path: FILE'")
    known = fields_of(parser)
    words = []
    for name, value in fields.items():
        flag = str(name).replace("_", "-")
        if flag not in known:
            raise UsageError(place, f"{name}: no such field", f"there are {', '.join(known)}")
        if not isinstance(value, str) or not value:
            raise UsageError(place, f"{name}: expected one value")
        words.append(f"--{flag}={value}")
    return Entry(place, words)
