"""Traces in a terminal, in colours, and legible without them."""

from collections.abc import Sequence

from fairseq_specdec.decoding.iteration import DRAWN, RELAXED, VERDICTS, TracedIteration

from .compare import TracedSystem, settings_text

# How a token is set apart: the mark before it, and ANSI codes; in the order of ``VERDICTS``.
STYLES = dict(zip(VERDICTS, [("+", "32"), ("~", "33"), ("%", "36"), ("x", "31;9"), (".", "2")]))
VERIFIER = (">", "1;34")
AGREED = ("=", "1;34")
HEAD = "1"


def printable(text: str) -> str:
    """Text that cannot steer a terminal: control and formatting characters become escapes."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


class Painter:
    """Sets text apart, by ANSI codes where there is ``colour``."""

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def __call__(self, text: str, codes: str) -> str:
        return f"\x1b[{codes}m{text}\x1b[0m" if self.colour else text

    def tokens(self, tokens: Sequence[str], style: tuple[str, str]) -> list[str]:
        mark, codes = style
        return [self(mark + printable(token), codes) for token in tokens]

    def legend(self, beams: bool) -> str:
        """What the marks mean; those of beam search too, where it is in the traces."""
        meanings = [(STYLES[verdict], meaning) for verdict, meaning in VERDICTS.items()]
        meanings.append((VERIFIER, "the verifier's own token"))
        if beams:
            meanings.append((AGREED, "beam search: in all hypotheses (at the end: in the best)"))
        lines = [f"  {self(*style)}  {meaning}" for style, meaning in meanings]
        return "\n".join([*lines, "  (in brackets: what the verifier would have chosen)"])

    def iteration(self, number: str, part: TracedIteration) -> str:
        """One line: number, position, the draft judged, the verifier's own token, times."""
        shown = []
        for i, (token, verdict) in enumerate(zip(part.draft, part.verdicts)):
            other = verdict in (RELAXED, DRAWN)
            shown += self.tokens([token], STYLES[verdict])
            shown[-1] += f"({printable(part.choices[i])})" if other else ""
        shown += self.tokens([] if part.own is None else [part.own], VERIFIER)
        shown += self.tokens(part.agreed or [], AGREED)
        times = (part.ms, part.drafter_ms, part.verifier_ms)
        notes = ["{:.2f} ms = {:.2f} drafter + {:.2f} verifier + rest".format(*times)]
        if part.live is not None:
            notes.append(f"{part.live} hypotheses go on")
        if (beam := part.beam) is not None:
            notes.append(
                f"{beam.scored} prefixes scored, {beam.drafted} of them drafted, {beam.used} "
                f"drafted ones used, {beam.steps} steps"
            )
        notes += [f"{part.steps} small steps"] * bool(part.steps)
        notes += [f"{part.rows} sentences"] * (part.rows > 1)
        return f"{number} @{part.position:<3d} {' '.join(shown)}   [{', '.join(notes)}]"

    def sentence(self, system: TracedSystem, number: int) -> str:
        """A sentence as one system decoded it, several lines."""
        trace = system.traces[number]
        rounds = len(trace.iterations)
        mean = len(trace.output) / max(1, rounds)
        facts = [f"{printable(system.name)}: {rounds} iterations", f"{mean:.2f} tokens each"]
        if trace.drafted:
            facts.append(f"{trace.accepted} of {trace.drafted} drafted tokens accepted")
        facts.append(f"{trace.ms:.1f} ms")
        if trace.score is not None:
            facts.append(f"score {trace.score:.4f}")
        lines = [self(", ".join(facts), HEAD)]
        if trace.settings:
            lines.append("settings  " + printable(settings_text(trace.settings)))
        for i, part in enumerate(trace.iterations, start=1):
            lines.append(self.iteration(f"{i:{len(str(rounds))}d}", part))
        lines.append("output    " + printable(trace.output_text or " ".join(trace.output)))
        return "\n".join(lines)


def show(systems: Sequence[TracedSystem], ids: Sequence[int], colour: bool) -> list[str]:
    """Paragraphs: a legend, then each sentence as every system decoded it."""
    paint = Painter(colour)
    shown = [paint.legend(any("beam" in system.settings for system in systems))]
    for number in ids:
        having = [system for system in systems if number in system.traces]
        first = having[0].traces[number]
        source = printable(first.source_text or " ".join(first.source))
        shown.append(f"{paint(f'=== sentence {number}', HEAD)}\nsource    {source}")
        shown += [paint.sentence(system, number) for system in having]
    return shown
