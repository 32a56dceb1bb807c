"""The same sentences, decoded by several systems."""

import os
from collections.abc import Sequence

from fairseq_specdec.errors import UsageError

from .record import Trace

Systems = dict[str, dict[int, Trace]]
"""The traces of each strategy of each file, by a name of its own and by sentence id."""


def systems_of(files: Sequence[tuple[str, Sequence[Trace]]]) -> Systems:
    """Sort traces by the system that made them. Raises UsageError: a sentence is there twice for
    one, or is another sentence for another one."""
    groups: dict[tuple[str, str], dict[int, Trace]] = {}
    sources: dict[int, list[str]] = {}
    for file, traces in files:
        for trace in traces:
            group = groups.setdefault((file, trace.strategy), {})
            if trace.id in group:
                problem = f"sentence {trace.id} is there twice for {trace.strategy}"
                raise UsageError(file, problem, "give each once")
            if trace.source != sources.setdefault(trace.id, trace.source):
                problem = f"sentence {trace.id} is another one in the traces before"
                raise UsageError(file, problem, "give traces of one data set")
            group[trace.id] = trace
    strategies = [strategy for _, strategy in groups]
    return {
        strategy if strategies.count(strategy) == 1 else f"{strategy}, {file}": group
        for (file, strategy), group in groups.items()
    }


def settings_text(trace: Trace) -> str:
    """Its settings in one line; a path by its last part."""
    texts = {key: str(value) for key, value in trace.settings.items()}
    return ", ".join(f"{key} {os.path.basename(text) or text}" for key, text in texts.items())
