"""Figures of single sentences, from which intervals and paired tests can be computed."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

from . import figures
from .text import Texts
from .timing import System


def speed_ups(systems: Sequence[System], plans: Sequence[Any], beam: System, data: Any) -> Any:
    """What a batch size of 1 tells of single sentences.

    Args:
        systems: measured at batch size 1.
        plans: theirs.
        beam: stock beam 5.
        data: the split.

    Returns:
        ``speed_ups`` by system, against beam 5, and ``by_edit_ratio`` of the systems of ``iad``.
    """
    found: Dict[str, Any] = {"speed_ups": {}, "by_edit_ratio": {}}
    greedy = next(system for system in systems if system.name == "fairseq beam 1")
    for system, plan in zip(systems, plans):
        faster = figures.speed_ups(system, beam)
        found["speed_ups"][system.name] = [round(x, 4) for x in faster]
        if plan.settings.get("strategy") == "iad":
            ratios = figures.edit_ratios(system, data)
            faster = figures.speed_ups(system, greedy)
            found["by_edit_ratio"][system.name] = {
                "edit_ratio": [round(x, 4) for x in ratios],
                "speed_up": [round(x, 4) for x in faster],
            }
    return found


def columns(systems: Sequence[System], texts: Texts, data: Any) -> Dict[str, Any]:
    """What ``--by-sentence`` adds to a run.

    Args:
        systems: measured.
        texts: turns tokens into text.
        data: the split.

    Returns:
        ``id``, the sentences in the order of decoding, as in ``ms_by_batch``; ``reference_words``,
        or None where the data have no references; and ``systems``, by name: ``tokens`` (of the
        output, </s> included), ``iterations`` (calls of the verifier; of stock, decoder steps),
        ``words`` and ``matches`` (those of 1 to 4 words that BLEU counts), or None.
    """
    order = [number for batch in systems[0].sentences for number in batch]
    references = None
    if getattr(data, "tgt", None) is not None:
        references = texts.references(data, order)
    found = {}
    words: Optional[Sequence[int]] = None
    for system in systems:
        counts = references and texts.counts([system.tokens[n] for n in order], references)
        found[system.name] = {
            "tokens": [len(system.tokens[n]) for n in order],
            "iterations": [system.iterations[n] for n in order],
            "words": counts and [count.words for count in counts],
            "matches": counts and [list(part) for part in zip(*(c.matches for c in counts))],
        }
        words = counts and [count.reference_words for count in counts]
    return {"id": order, "reference_words": words, "systems": found}
