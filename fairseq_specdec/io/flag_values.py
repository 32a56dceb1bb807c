"""Which values a flag takes, stated once: checked, and put into its help, from there."""

from __future__ import annotations

import argparse
import dataclasses
import math
from typing import Any, Optional, Tuple, Union


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers; NaN is in no range.

    Attributes:
        least, most: the ends.
        whole: whole numbers only.
        above, below: without the end.
    """

    least: float = 0
    most: float = math.inf
    whole: bool = False
    above: bool = False
    below: bool = False

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
Values = Union[Range, Tuple[str, ...]]
AT_LEAST_1 = Range(1, whole=True)
AT_LEAST_0 = Range(0, whole=True)
SHARE = Range(0, 1)


def flag_of(name: str) -> str:
    """The flag of a field, as ``--block-size``."""
    return "--" + name.replace("_", "-")


def check_value(flag: str, value: Any, values: Values) -> None:
    """Refuse a value that is none of ``values``."""
    if isinstance(values, Range):
        if value not in values:
            raise ValueError(f"{flag} {value}: must be {values}")
    elif value not in values:
        raise ValueError(f"{flag} {value}: choose one of {', '.join(values)}")


def numbers(text: str, flag: str) -> Tuple[int, ...]:
    """The different whole numbers from 1 that a flag lists, as in 1,8,32."""
    words = text.split(",")
    found = tuple(int(word) if word.strip().isdecimal() else 0 for word in words)
    if min(found) < 1 or len(set(found)) < len(found):
        raise ValueError(f"{flag} {text}: expected different whole numbers from 1, as in 1,8,32")
    return found


def flag(
    default: Any,
    text: str,
    values: Optional[Values] = None,
    used_by: Tuple[str, ...] = (),
    otherwise: Any = None,
) -> Any:
    """A dataclass's field that fairseq makes a flag of. Its help is made from all of these.

    Args:
        default: where the flag is not given.
        text: what the flag sets.
        values: what it takes; None: anything of its type.
        used_by: strategies that read it; () for all.
        otherwise: what the default means, where its value does not say it.
    """
    owners = ", ".join(used_by) + ": " if used_by else ""
    allowed = f"; {values}" if isinstance(values, Range) else ""
    if otherwise is None:
        otherwise = {None: "none", False: "off"}.get(default, default)
    words = f"{owners}{text}{allowed} (default: {otherwise})"
    metadata = {"help": words, "values": values, "used_by": used_by}
    return dataclasses.field(default=default, metadata=metadata)


def check_flags(settings: Any, config: Any) -> None:
    """Refuse values out of range; None, of a flag that was not given, passes."""
    for field in dataclasses.fields(config):
        values = field.metadata.get("values")
        value = getattr(settings, field.name) if values else None
        if values and value is not None:
            check_value(flag_of(field.name), value, values)


class InRange(argparse.Action):
    """``add_argument(..., action=InRange, values=Range(...))``: a number, refused by the flag's
    name with a ValueError; ``%(values)s`` in its help is the range."""

    def __init__(self, values: Range, help: str, **settings: Any) -> None:
        kind = int if values.whole else float
        super().__init__(type=kind, help=help.replace("%(values)s", str(values)), **settings)
        self.values = values

    def __call__(self, parser: Any, namespace: Any, value: Any, option_string: Any = None) -> None:
        check_value(self.option_strings[0], value, self.values)
        setattr(namespace, self.dest, value)
