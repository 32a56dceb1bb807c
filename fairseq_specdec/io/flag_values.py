"""Which values a flag takes, stated once: checked, and put into its help, from there."""

import argparse
import dataclasses
import math
from typing import Any

from fairseq_specdec.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers; NaN is in no range."""

    least: float = 0
    most: float = math.inf
    whole: bool = False  # whole numbers only
    above: bool = False  # without the lower end
    below: bool = False  # without the upper end

    def __contains__(self, value: Any) -> bool:
        return bool(
            (self.least < value if self.above else self.least <= value)
            and (value < self.most if self.below else value <= self.most)
        )

    def __str__(self) -> str:
        least = f"{'above ' if self.above else ''}{self.least:g}"
        if self.most == math.inf:
            return (least if self.above else f"{least} or more") + ", finite" * self.below
        return f"from {least} to {'below ' if self.below else ''}{self.most:g}"


# Words to choose from are a tuple of them.
Values = Range | tuple[str, ...]
AT_LEAST_1 = Range(1, whole=True)
AT_LEAST_0 = Range(0, whole=True)
NOT_NEGATIVE = Range(0)
SHARE = Range(0, 1)
SECONDS = Range(0, 3600, above=True)


def flag_of(name: str) -> str:
    """The flag of a field, as ``--block-size``."""
    return "--" + name.replace("_", "-")


def check_value(flag: str, value: Any, values: Values) -> None:
    """Refuse a value that is none of ``values``."""
    if value not in values:
        problem = f"must be {values}"
        if isinstance(values, tuple):
            problem = f"choose one of {', '.join(values)}"
        raise UsageError(f"{flag} {value}", problem)


def numbers(text: str, flag: str) -> tuple[int, ...]:
    """The different whole numbers from 1 that a flag lists, as in 1,8,32."""
    words = text.split(",")
    listed = tuple(int(word) if word.strip().isdecimal() else 0 for word in words)
    if min(listed) < 1 or len(set(listed)) < len(listed):
        raise UsageError(f"{flag} {text}", "expected different whole numbers from 1, as in 1,8,32")
    return listed


def flag(default: Any, text: str, values: Values | None = None, otherwise: Any = None) -> Any:
    """A dataclass's field that fairseq makes a flag of. Its help is made from ``text``, what the
    flag sets, ``values``, what it takes (None: anything of its type), and ``otherwise``, what the
    default means, where its value does not say it."""
    metadata = {"help": _help(text, values, default, otherwise), "values": values}
    return dataclasses.field(default=default, metadata=metadata)


def _help(text: str, values: Values | None, default: Any, otherwise: Any) -> str:
    allowed = f"; {values}" if isinstance(values, Range) else ""
    if otherwise is None:
        otherwise = "none" if default is None else "off" if default is False else default
    return f"{text}{allowed} (default: {otherwise})"


def check_flags(settings: Any, config: Any) -> None:
    """Refuse values out of range; None, of a flag that was not given, passes."""
    for field in dataclasses.fields(config):
        values = field.metadata.get("values")
        if values and getattr(settings, field.name) is not None:
            check_value(flag_of(field.name), getattr(settings, field.name), values)


class InRange(argparse.Action):
    """A number of a range, refused by the flag's name with a ValueError."""

    def __init__(self, values: Range, **settings: Any) -> None:
        super().__init__(type=int if values.whole else float, **settings)
        self.values = values

    def __call__(self, parser: Any, namespace: Any, value: Any, option_string: Any = None) -> None:
        check_value(self.option_strings[0], value, self.values)
        setattr(namespace, self.dest, value)


def add_flag(
    group: Any,
    names: str,
    text: str,
    values: Values | None = None,
    default: Any = None,
    otherwise: Any = None,
    **settings: Any,
) -> Any:
    """Add a flag (``names``, as ``"--source-lang -s"``) to a parser, or a group of one; its help is
    made as that of ``flag``. A default of False makes a switch. ``settings``: more of
    ``add_argument``; of one that is ``required`` there is no default."""
    if isinstance(values, Range):
        settings = {"metavar": "N", "action": InRange, "values": values, **settings}
    elif values:
        settings["choices"] = values
    elif default is False:
        settings["action"] = "store_true"
    required = settings.get("required")
    words = f"{text}; required" if required else _help(text, values, default, otherwise)
    settings = {"default": default, "help": words.replace("%", "%%"), **settings}
    return group.add_argument(*names.split(), **settings)


def add_languages(group: Any) -> None:
    """``--source-lang`` and ``--target-lang`` of a command that reads a data folder."""
    for side in ("source", "target"):
        names = f"--{side}-lang -{side[0]}"
        add_flag(group, names, f"{side} language", metavar="LANG", otherwise="as the data say")
