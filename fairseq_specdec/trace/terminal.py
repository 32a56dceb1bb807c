"""Traces in a terminal, in colours, and legible without them."""

import unicodedata
from collections.abc import Sequence

from fairseq_specdec.decoding.iteration import (
    DRAWN,
    OWN,
    REJECTED,
    RELAXED,
    UNSEEN,
    VERDICTS,
    TracedIteration,
)

from .compare import TracedSystem, settings_text
from .record import Trace

# How a token is set apart: the mark before it, and ANSI codes.
STYLES = {
    OWN: ("+", "32"), RELAXED: ("~", "33"), DRAWN: ("%", "36"), REJECTED: ("x", "31;9"),
    UNSEEN: (".", "2"),
}  # fmt: skip
VERIFIER = (">", "1;34")
AGREED = ("=", "1;34")
HEAD = "1"


def printable(text: str) -> str:
    """Text that cannot steer a terminal: control and formatting characters become escapes."""
    return "".join(
        char
        if unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


class Painter:
    """Sets text apart."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, text: str, codes: str) -> str:
        return f"\x1b[{codes}m{text}\x1b[0m" if self.colour else text

    def token(self, token: str, style: tuple[str, str]) -> str:
        return self(style[0] + printable(token), style[1])

    def legend(self, beams: bool) -> str:
        """What the marks mean; those of beam search too, where it is in the traces."""
        meanings = [(STYLES[verdict], meaning) for verdict, meaning in VERDICTS.items()]
        meanings.append((VERIFIER, "the verifier's own token"))
        if beams:
            meanings.append((AGREED, "beam search: in all hypotheses (at the end: in the best)"))
        lines = [f"  {self(*style)}  {meaning}" for style, meaning in meanings]
        return "\n".join([*lines, "  (in brackets: what the verifier would have chosen)"])

    def iteration(self, number: int, part: TracedIteration, width: int) -> str:
        """One line: number, position, the draft judged, the verifier's own token, times."""
        shown = []
        for i, (token, verdict) in enumerate(zip(part.draft, part.verdicts)):
            text = self.token(token, STYLES[verdict])
            if verdict in (RELAXED, DRAWN):
                text += f"({printable(part.choices[i])})"
            shown.append(text)
        if part.own is not None:
            shown.append(self.token(part.own, VERIFIER))
        shown += [self.token(token, AGREED) for token in part.agreed or ()]
        notes = [
            f"{part.ms:.2f} ms = {part.drafter_ms:.2f} drafter + {part.verifier_ms:.2f} verifier "
            "+ rest"
        ]
        if part.live is not None:
            notes.append(f"{part.live} hypotheses go on")
        if part.beam is not None:
            beam = part.beam
            notes.append(
                f"{beam.scored} prefixes scored, {beam.drafted} of them drafted, {beam.used} "
                f"drafted ones used, {beam.steps} steps"
            )
        notes += [f"{part.steps} small steps"] * bool(part.steps)
        notes += [f"{part.rows} sentences"] * (part.rows > 1)
        return f"{number:{width}d} @{part.position:<3d} {' '.join(shown)}   [{', '.join(notes)}]"

    def sentence(self, name: str, trace: Trace) -> str:
        """A trace, several lines."""
        rounds = len(trace.iterations)
        tokens = len(trace.output)
        facts = [f"{rounds} iterations", f"{tokens / max(1, rounds):.2f} tokens each"]
        if trace.drafted:
            facts.append(f"{trace.accepted} of {trace.drafted} drafted tokens accepted")
        facts.append(f"{trace.ms:.1f} ms")
        if trace.score is not None:
            facts.append(f"score {trace.score:.4f}")
        lines = [self(f"{printable(name)}: {', '.join(facts)}", HEAD)]
        if trace.settings:
            lines.append("settings  " + printable(settings_text(trace.settings)))
        width = len(str(rounds))
        parts = enumerate(trace.iterations, start=1)
        lines += [self.iteration(i, part, width) for i, part in parts]
        text = " ".join(trace.output) if trace.output_text is None else trace.output_text
        lines.append("output    " + printable(text))
        return "\n".join(lines)


def show(systems: Sequence[TracedSystem], ids: Sequence[int], colour: bool) -> list[str]:
    """Paragraphs: a legend, then each sentence as every system decoded it."""
    paint = Painter(colour)
    beams = any("beam" in system.settings for system in systems)
    shown = [paint.legend(beams)]
    for number in ids:
        traces = [(s.name, s.traces[number]) for s in systems if number in s.traces]
        first = traces[0][1]
        source = " ".join(first.source) if first.source_text is None else first.source_text
        shown.append(paint(f"=== sentence {number}", HEAD) + "\nsource    " + printable(source))
        shown += [paint.sentence(name, trace) for name, trace in traces]
    return shown
