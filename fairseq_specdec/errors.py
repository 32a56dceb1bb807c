"""Users' mistakes, as one class. Any other exception is a fault of this project."""

from __future__ import annotations

import re
from collections.abc import Callable

# In messages a flag is spelled as on the command line; each front end has its own spelling.
_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*[a-z0-9])(?![\w-])")


class UsageError(ValueError):
    """What a user can mend, in one line.

    Args:
        field: a flag, with its value where that is wrong (``--block-size 0``), or a file.
        problem: what is wrong with it.
        remedy: what to do.
    """

    def __init__(self, field: object, problem: object, remedy: object = "") -> None:
        self.field, self.problem, self.remedy = str(field), str(problem), str(remedy)
        super().__init__(self.field, self.problem, self.remedy)
        self.original: UsageError = self  # names the flags of the command line

    def __str__(self) -> str:
        said = f"{self.field}: {self.problem}" if self.field else self.problem
        return printable(f"{said}; {self.remedy}" if self.remedy else said)

    def reworded(self, spelled: Callable[[str], str | None]) -> UsageError:
        """The same mistake in the words of a front end.

        Args:
            spelled: a flag's spelling there, by its name with underscores; None for what is no flag
                of that front end, which stays.
        """

        def replaced(match: re.Match[str]) -> str:
            return spelled(match[1].replace("-", "_")) or match[0]

        made = type(self)(*(_FLAG.sub(replaced, text) for text in self.args))
        made.original = self.original
        return made


class MissingFileError(UsageError, FileNotFoundError):
    """A file or folder that is not there."""


def printable(text: str) -> str:
    """``text`` in one line, with control characters, which a terminal would obey, as escapes."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in " ".join(text.split())
    )
