"""Traces in a terminal, in colours, and legible without them."""

from collections.abc import Callable, Sequence

from fairseq_specdec.decoding.iteration import DRAWN, RELAXED, VERDICTS, TracedIteration
from fairseq_specdec.errors import printable

from .compare import Systems, settings_text
from .record import Trace

# How a token is set apart: the mark before it, and ANSI codes; in the order of ``VERDICTS``.
STYLES = dict(zip(VERDICTS, [("+", "32"), ("~", "33"), ("%", "36"), ("x", "31;9"), (".", "2")]))
VERIFIER = (">", "1;34")
AGREED = ("=", "1;34")
HEAD = "1"

Paint = Callable[[str, str], str]
"""A text with ANSI codes around it, where there are colours."""


def _legend(paint: Paint, beams: bool) -> str:
    """What the marks mean; those of beam search too, where it is in the traces."""
    meanings = [(STYLES[verdict], meaning) for verdict, meaning in VERDICTS.items()]
    meanings.append((VERIFIER, "the verifier's own token"))
    if beams:
        meanings.append((AGREED, "beam search: in all hypotheses (at the end: in the best)"))
    lines = [f"  {paint(*style)}  {meaning}" for style, meaning in meanings]
    return "\n".join([*lines, "  (in brackets: what the verifier would have chosen)"])


def _iteration(paint: Paint, number: str, part: TracedIteration) -> str:
    """One line: number, position, the draft judged, the verifier's own token, times."""
    tokens = [(STYLES[verdict], token) for token, verdict in zip(part.draft, part.verdicts)]
    tokens += [(VERIFIER, part.own)] * (part.own is not None)
    tokens += [(AGREED, token) for token in part.agreed or []]
    shown = [paint(mark + printable(token), codes) for (mark, codes), token in tokens]
    for i, verdict in enumerate(part.verdicts):
        if verdict in (RELAXED, DRAWN):
            shown[i] += f"({printable(part.choices[i])})"
    times = (part.ms, part.drafter_ms, part.verifier_ms)
    notes = ["{:.2f} ms = {:.2f} drafter + {:.2f} verifier + rest".format(*times)]
    notes += [f"{part.steps} small steps"] * bool(part.steps)
    notes += [f"{part.rows} sentences"] * (part.rows > 1)
    return f"{number} @{part.position:<3d} {' '.join(shown)}   [{', '.join(notes)}]"


def _sentence(paint: Paint, name: str, trace: Trace) -> str:
    """A sentence as one system decoded it, several lines."""
    rounds = len(trace.iterations)
    mean = len(trace.output) / max(1, rounds)
    facts = [f"{printable(name)}: {rounds} iterations", f"{mean:.2f} tokens each"]
    if trace.drafted:
        facts.append(f"{trace.accepted} of {trace.drafted} drafted tokens accepted")
    facts.append(f"{trace.ms:.1f} ms")
    if trace.score is not None:
        facts.append(f"score {trace.score:.4f}")
    lines = [paint(", ".join(facts), HEAD)]
    if trace.settings:
        lines.append("settings  " + printable(settings_text(trace)))
    for i, part in enumerate(trace.iterations, start=1):
        lines.append(_iteration(paint, f"{i:{len(str(rounds))}d}", part))
    lines.append("output    " + printable(trace.output_text or " ".join(trace.output)))
    return "\n".join(lines)


def show(systems: Systems, ids: Sequence[int], colour: bool) -> list[str]:
    """Paragraphs: a legend, then each sentence as every system decoded it."""

    def paint(text: str, codes: str) -> str:
        return f"\x1b[{codes}m{text}\x1b[0m" if colour else text

    traces = [trace for each in systems.values() for trace in each.values()]
    shown = [_legend(paint, any("beam" in trace.settings for trace in traces))]
    for number in ids:
        having = {name: each[number] for name, each in systems.items() if number in each}
        first = next(iter(having.values()))
        source = printable(first.source_text or " ".join(first.source))
        shown.append(f"{paint(f'=== sentence {number}', HEAD)}\nsource    {source}")
        shown += [_sentence(paint, *each) for each in having.items()]
    return shown
