"""Traces as one HTML page."""

from collections.abc import Sequence
from typing import Any

from fairseq_specdec.decoding.iteration import VERDICTS
from fairseq_specdec.viewer import page

from .compare import TracedSystem, settings_text


def html_of(systems: Sequence[TracedSystem], ids: Sequence[int], total: int, title: str) -> str:
    """The page. ``total``: sentences that there are, of which ``ids`` are shown."""
    sentences = [_sentence(number, systems) for number in ids]
    return page(
        title, "trace", {"verdicts": VERDICTS, "total": total, "sentences": sentences}
    ).text  # fmt: skip


def _sentence(number: int, systems: Sequence[TracedSystem]) -> dict[str, Any]:
    traces = [(system, system.traces[number]) for system in systems if number in system.traces]
    runs = []
    for system, trace in traces:
        run = trace.to_dict()
        kept = {name: run[name] for name in ("score", "output", "output_text", "iterations")}
        runs.append({**kept, "name": system.name, "settings": settings_text(system.settings)})
    first = traces[0][1]
    return {"id": number, "source": first.source, "text": first.source_text, "runs": runs}
