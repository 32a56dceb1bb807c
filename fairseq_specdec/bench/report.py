"""Tables of measured figures."""

from __future__ import annotations

import statistics
from typing import Any, Dict, List, Sequence

from .timing import System


def identical_share(system: System, reference: System) -> float:
    """Share of sentences with the same tokens as ``reference``, in percent."""
    same = sum(system.tokens[n] == reference.tokens[n] for n in reference.tokens)
    return 100.0 * same / len(reference.tokens)


def figures(
    system: System, greedy: System, beam: System, quality: Dict[str, float]
) -> Dict[str, Any]:
    """One row: what DESIGN's "Numbers, and what they mean" defines.

    Args:
        system: the row.
        greedy: stock beam 1.
        beam: stock beam 5.
        quality: the score of each system by name.
    """
    sentences = len(system.tokens)
    total = sum(system.seconds)
    stats = system.stats
    return {
        "system": system.name,
        "quality": quality[system.name],
        "identical_percent": identical_share(system, greedy),
        "tok": stats.mean_accepted_tokens if stats else 1.0,
        "iter": stats.mean_iterations if stats else system.steps / sentences,
        "accepted_percent": 100 * stats.acceptance_rate if stats else None,
        "ms_per_sentence": 1000 * total / sentences,
        "ms_median": 1000 * statistics.median(system.seconds),
        "ms_per_iteration": 1000 * total / system.steps,
        "speed_beam5": sum(beam.seconds) / total,
        "speed_beam1": sum(greedy.seconds) / total,
        "seconds": stats.times() if stats else None,
    }


def markdown(rows: Sequence[Dict[str, Any]], quality_name: str) -> str:
    """The table, as Markdown that also reads well in a terminal."""
    head = [
        "system", quality_name, "identical to beam 1", "Tok.", "Iter.", "ms a sentence",
        "ms an iteration", "speed vs beam 5", "speed vs beam 1",
    ]  # fmt: skip
    body: List[List[str]] = []
    for row in rows:
        body.append(
            [
                row["system"],
                f"{row['quality']:.2f}",
                f"{row['identical_percent']:.1f}%",
                f"{row['tok']:.2f}",
                f"{row['iter']:.2f}",
                f"{row['ms_per_sentence']:.1f}",
                f"{row['ms_per_iteration']:.2f}",
                f"{row['speed_beam5']:.2f}x",
                f"{row['speed_beam1']:.2f}x",
            ]
        )
    return table(head, body)


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table whose columns line up, the first to the left."""
    # A bar would end the cell.
    rows = [[cell.replace("|", "\\|") for cell in line] for line in [head, *body]]
    widths = [max(len(line[i]) for line in rows) for i in range(len(head))]

    def text(line: Sequence[str]) -> str:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        return "| " + " | ".join(cells) + " |"

    rule = "|" + "|".join(["-" * (widths[0] + 2)] + ["-" * (w + 1) + ":" for w in widths[1:]]) + "|"
    return "\n".join([text(rows[0]), rule] + [text(line) for line in rows[1:]])


def trace(system: System, number: int, dictionary: Any) -> List[str]:
    """A sentence iteration by iteration: the draft, and what the verifier made of it.

    Accepted draft tokens stand before the bar; after it the verifier's own token.
    """
    lines = []
    parts = system.history[number]
    for draft, emitted in zip(parts[::2], parts[1::2]):
        kept = draft["accepted"]
        words = [dictionary[t] for t in emitted["tokens"].tolist()]
        proposed = " ".join(dictionary[t] for t in draft["tokens"].tolist()) or "(nothing)"
        shown = " ".join(words[:kept] + ["|"] + words[kept:])
        lines.append(f"{draft['iteration'] + 1:3d}  draft    {proposed}")
        lines.append(f"     emitted  {shown}   ({kept} accepted)")
    return lines
