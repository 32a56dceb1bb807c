"""Settings of a checkpoint in the layout of fairseq 0.10 and before hold no interpolation, ever."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from .settings import RefusedCheckpointError


def check_lines(lines: list[str], path: str) -> None:
    r"""Look for interpolations where nothing but Hydra reads the settings any more.

    fairseq converts a checkpoint's Namespace by writing each setting into a line of Hydra's
    grammar. Text that holds no interpolation becomes one there: ``ast.literal_eval`` and Hydra
    replace escapes (``"'\\x24{oc.env:HOME}'"``), join quoted parts (``"'$' '{oc.env:HOME}'"``) and
    drop backslashes (``"$\\{oc.env:HOME\\}"``). Then it is resolved.

    The lines are read by Hydra's own parser. Their values may be the interpolations that fairseq's
    dataclasses have as defaults, under the same names, and no others; the choice of a group, which
    Hydra resolves as it composes, must be a name.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser

    known = _of_fairseq()
    for override in OverridesParser.create().parse_overrides(lines):
        name = str(override.key_or_group)
        for text in _texts(override.value()):
            group = "." not in name
            interpolates = "${" in text and (name.rpartition(".")[2], text) not in known
            if interpolates or (group and not re.match(r"[\w-]*\Z", text)):
                raise RefusedCheckpointError(
                    path,
                    f"its setting {name} becomes {text[:80]!r} as fairseq converts it: "
                    f"{'no name' if group else 'an interpolation'}, and no value "
                    "(interpolations are replaced by other settings or the environment)",
                    "do not use this file",
                )


def _of_fairseq() -> frozenset[tuple[str, str]]:
    """(name, text) of the interpolations among the defaults of fairseq's dataclasses."""
    from fairseq.dataclass import FairseqDataclass

    pairs, left = set(), [FairseqDataclass]
    while left:
        each = left.pop()
        left += each.__subclasses__()
        for field in dataclasses.fields(each):
            if type(field.default) is str and "${" in field.default:
                pairs.add((field.name, field.default))
    return frozenset(pairs)


def _texts(value: Any) -> Iterator[str]:
    """All texts of a value as Hydra's parser gives it."""
    if isinstance(value, str):
        yield value
    elif hasattr(value, "text"):  # quoted
        yield str(value.text)
    elif isinstance(value, dict):
        for item in value.items():
            yield from _texts(list(item))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif not isinstance(value, (int, float, bool, type(None))):
        yield f"${{{value}}}"  # a sweep or another construct: no value
