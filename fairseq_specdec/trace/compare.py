"""The same sentences, decoded by several systems."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from .record import Trace, TraceError


class TracedSystem(NamedTuple):
    """Traces made by one strategy with one choice of settings, from one file."""

    name: str  # differs from every other system's
    settings: dict[str, Any]  # its flags
    traces: dict[int, Trace]  # by sentence id


def systems_of(files: Sequence[tuple[str, Sequence[Trace]]]) -> list[TracedSystem]:
    """Sort traces by the system that made them."""
    groups: dict[tuple[str, str, str], list[Trace]] = {}
    sources: dict[int, tuple[str, list[str]]] = {}
    for file, traces in files:
        for trace in traces:
            key = (file, trace.strategy, repr(sorted(trace.settings.items())))
            groups.setdefault(key, []).append(trace)
    systems = []
    for name, (file, _, _), traces in zip(_names(groups), groups, groups.values()):
        by_id: dict[int, Trace] = {}
        for trace in traces:
            if trace.id in by_id:
                raise TraceError(file, f"sentence {trace.id} is there twice for {name}")
            by_id[trace.id] = trace
            first, source = sources.setdefault(trace.id, (name, trace.source))
            if source != trace.source:
                raise TraceError(
                    "",
                    f"sentence {trace.id} is another one in the traces of {first} and {name}",
                    "give traces of one data set",
                )
        systems.append(TracedSystem(name, traces[0].settings, by_id))
    return systems


def _names(groups: dict[tuple[str, str, str], list[Trace]]) -> list[str]:
    """The strategy's name; where that is no name yet, the settings that differ, or the file's."""
    names: list[str] = []
    for file, strategy, shown in groups:
        rivals = [key for key in groups if key[1] == strategy]
        name = strategy
        if len({key[2] for key in rivals}) > 1:
            mine, *others = (groups[key][0].settings for key in [(file, strategy, shown), *rivals])
            differing = {
                key: value
                for key, value in sorted(mine.items())
                if any(repr(each.get(key)) != repr(value) for each in others)
            }
            name = f"{strategy} ({settings_text(differing) or 'defaults'})"
        if sum(key[2] == shown for key in rivals) > 1:
            name = f"{name}, {os.path.basename(file)}"
        while name in names:
            name += "'"
        names.append(name)
    return names


def settings_text(settings: dict[str, Any]) -> str:
    """Settings in one line; a path by its last part."""
    texts = {key: str(value) for key, value in settings.items()}
    return ", ".join(f"{key} {os.path.basename(text) or text}" for key, text in texts.items())


def chosen(
    systems: list[TracedSystem], ids: Sequence[int] | None, limit: int | None
) -> tuple[list[int], int]:
    """Which sentences to show.

    Args:
        systems: what there is.
        ids: these, in this order; None for all, in the first file's order.
        limit: at most so many; None for all.

    Returns:
        The ids, and how many there would be without a limit.
    """
    present = list(dict.fromkeys(number for s in systems for number in s.traces))
    if ids is not None:
        missing = [number for number in ids if number not in set(present)]
        if missing:
            raise TraceError(
                f"--id {missing[0]}",
                "no such sentence",
                f"there are {len(present)}, such as {', '.join(map(str, present[:5]))}",
            )
        present = list(dict.fromkeys(ids))
    return present[:limit], len(present)
