"""The same sentences, decoded by several systems."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from fairseq_specdec.errors import UsageError

from .record import Trace


class TracedSystem(NamedTuple):
    """Traces made by one strategy, from one file."""

    name: str  # differs from every other system's
    settings: dict[str, Any]  # its flags
    traces: dict[int, Trace]  # by sentence id


def systems_of(files: Sequence[tuple[str, Sequence[Trace]]]) -> list[TracedSystem]:
    """Sort traces by the system that made them. Raises UsageError: a sentence is there twice for
    one, or is another sentence for another one."""
    groups: dict[tuple[str, str], list[Trace]] = {}
    for file, traces in files:
        for trace in traces:
            groups.setdefault((file, trace.strategy), []).append(trace)
    strategies = [strategy for _, strategy in groups]
    sources: dict[int, list[str]] = {}
    systems = []
    for (file, strategy), traces in groups.items():
        name = strategy if strategies.count(strategy) == 1 else f"{strategy}, {file}"
        by_id = {trace.id: trace for trace in traces}
        if len(by_id) < len(traces):
            raise UsageError(file, f"a sentence is there twice for {strategy}", "give each once")
        for trace in traces:
            if trace.source != sources.setdefault(trace.id, trace.source):
                problem = f"sentence {trace.id} is another one in the traces before"
                raise UsageError(file, problem, "give traces of one data set")
        systems.append(TracedSystem(name, traces[0].settings, by_id))
    return systems


def settings_text(settings: dict[str, Any]) -> str:
    """Settings in one line; a path by its last part."""
    texts = {key: str(value) for key, value in settings.items()}
    return ", ".join(f"{key} {os.path.basename(text) or text}" for key, text in texts.items())


def chosen(
    systems: Sequence[TracedSystem], ids: Sequence[int] | None, limit: int | None
) -> tuple[list[int], int]:
    """Which sentences to show, and how many there would be without ``limit``. ``ids``: these, in
    this order; None for all, in the first file's order."""
    present = dict.fromkeys(number for system in systems for number in system.traces)
    for number in ids or ():
        if number not in present:
            raise UsageError(f"--id {number}", "no such sentence", f"there are {len(present)}")
    wanted = list(dict.fromkeys(ids or present))
    return wanted[:limit], len(wanted)
