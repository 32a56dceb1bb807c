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
        systems.append(TracedSystem(name, traces[0].settings, by_id))
    _check_sources(systems)
    return systems


def _names(groups: dict[tuple[str, str, str], list[Trace]]) -> list[str]:
    """The strategy's name; where that is no name yet, the settings that differ, or the file's."""
    names = []
    for file, strategy, shown in groups:
        rivals = [key for key in groups if key[1] == strategy]
        name = strategy
        if len({key[2] for key in rivals}) > 1:
            mine = groups[file, strategy, shown][0].settings
            name = f"{strategy} ({_differing(mine, [groups[key][0].settings for key in rivals])})"
        if sum(key[2] == shown for key in rivals) > 1:
            name = f"{name}, {os.path.basename(file)}"
        while name in names:
            name += "'"
        names.append(name)
    return names


def _differing(mine: dict[str, Any], all_settings: list[dict[str, Any]]) -> str:
    """Those of a system's settings that are not the same in all of them, in one line."""
    keys = sorted({key for settings in all_settings for key in settings})
    differing = [k for k in keys if len({repr(s.get(k)) for s in all_settings}) > 1]
    texts = [f"{key} {setting_text(mine[key])}" for key in differing if key in mine]
    return ", ".join(texts) or "defaults"


def setting_text(value: Any) -> str:
    """A setting's value, short: a path by its last part."""
    return os.path.basename(value) if isinstance(value, str) and os.sep in value else str(value)


def settings_text(settings: dict[str, Any]) -> str:
    """Settings in one line."""
    return ", ".join(f"{key} {setting_text(value)}" for key, value in settings.items())


def _check_sources(systems: list[TracedSystem]) -> None:
    sources: dict[int, tuple[str, list[str]]] = {}
    for system in systems:
        for number, trace in system.traces.items():
            name, source = sources.setdefault(number, (system.name, trace.source))
            if source != trace.source:
                raise TraceError(
                    "",
                    f"sentence {number} is another one in the traces of {name} and {system.name}",
                    "give traces of one data set",
                )


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
