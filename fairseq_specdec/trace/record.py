"""What one sentence's decoding looked like, iteration by iteration, in words."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Any

from fairseq_specdec.decoding.beam.observed import BeamPass, DraftedPrefix, LiveHypothesis
from fairseq_specdec.decoding.iteration import VERDICTS, TracedIteration
from fairseq_specdec.errors import UsageError

VERSION = 1


class TraceError(UsageError):
    """A trace that cannot be read or written; names the file or flag and the remedy."""


@dataclass(frozen=True)
class Trace:
    """One sentence.

    Attributes:
        id: its number in the data set (or in the call, or in the order of decoding, where there is
            no data set).
        strategy: ``--strategy``.
        settings: the flags that matter to it.
        source, output: tokens, the output's with </s>.
        score: the hypothesis's, natural logarithm; None where it is no finite number.
        iterations: in their order.
        source_text, output_text: plain text, where it is known.
    """

    id: int
    strategy: str
    settings: dict[str, Any]
    source: list[str]
    output: list[str]
    score: float | None
    iterations: list[TracedIteration] = field(default_factory=list)
    source_text: str | None = None
    output_text: str | None = None

    @property
    def ms(self) -> float:
        """Wall time of all iterations in milliseconds; encoding the source is not in it."""
        return sum(iteration.ms for iteration in self.iterations)

    @property
    def accepted(self) -> int:
        """Draft tokens in the output."""
        return sum(iteration.accepted for iteration in self.iterations)

    @property
    def drafted(self) -> int:
        """Draft tokens put before the verifier."""
        return sum(len(iteration.draft) for iteration in self.iterations)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, dictionaries and numbers, ready for JSON."""
        plain = dict(dataclasses.asdict(self), version=VERSION)
        if plain["score"] is not None and not math.isfinite(plain["score"]):
            plain["score"] = None
        for part in plain["iterations"]:
            for name in ("agreed", "live", "beam"):
                if part[name] is None:
                    del part[name]
        return plain

    def to_json(self) -> str:
        """One line of JSON, without the line's end."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> Trace:
        """Read what ``to_json`` wrote."""
        try:
            plain = json.loads(line)
        except ValueError as error:
            raise TraceError("", f"not JSON ({error})") from error
        if not isinstance(plain, dict) or "version" not in plain:
            raise TraceError("", "no trace", "write one with fairseq-generate --trace-path")
        version = plain.pop("version")
        if version != VERSION:
            raise TraceError("", f"a trace of version {version}, and this program reads {VERSION}")
        try:
            rounds = list(map(_iteration, plain.pop("iterations")))
            trace = cls(iterations=rounds, **plain)
            _check(trace)
        except (TypeError, KeyError, AttributeError) as error:
            raise TraceError("", f"no whole trace ({error})", "decode again") from error
        return trace


def _iteration(plain: dict[str, Any]) -> TracedIteration:
    beam = plain.pop("beam", None)
    return TracedIteration(**plain, beam=None if beam is None else _beam_pass(beam))


def _beam_pass(plain: dict[str, Any]) -> BeamPass:
    """Raises TypeError where it is something else than a pass in words."""
    live = [LiveHypothesis(**one) for one in plain.pop("hypotheses")]
    drafts = [DraftedPrefix(**one) for one in plain.pop("draft")]
    read = BeamPass(hypotheses=live, draft=drafts, **plain)
    numbers = [read.steps, read.scored, read.drafted, read.used]
    numbers += [number for one in drafts for number in (one.known, one.kept)]
    sound = (
        all(isinstance(number, int) and number >= 0 for number in numbers)
        and all(_strings(one.tokens) for one in (*live, *drafts))
        and all(isinstance(one.waits, bool) for one in live)
        and all(one.known + one.kept <= len(one.tokens) for one in drafts)
    )
    if not sound:
        raise TypeError("a beam of another type")
    return read


def _strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _check(trace: Trace) -> None:
    """Raise TypeError for fields of wrong types, and for iterations that contradict themselves."""
    texts = (trace.source_text, trace.output_text)
    sound = (
        isinstance(trace.id, int)
        and isinstance(trace.strategy, str)
        and isinstance(trace.settings, dict)
        and all(map(_strings, (trace.source, trace.output)))
        and (trace.score is None or _number(trace.score))
        and all(text is None or isinstance(text, str) for text in texts)
    )
    if not sound:
        raise TypeError("a field of another type")
    for number, part in enumerate(trace.iterations, start=1):
        problem = _problem(part)
        if problem:
            raise TypeError(f"iteration {number}: {problem}")


def _problem(part: TracedIteration) -> str:
    """What is wrong with an iteration; empty if nothing is."""
    sound = (
        all(map(_strings, (part.draft, part.verdicts, part.choices)))
        and (part.own is None or isinstance(part.own, str))
        and all(isinstance(value, int) for value in (part.position, part.steps, part.rows))
        and all(map(_number, (part.ms, part.drafter_ms, part.verifier_ms)))
        and (part.agreed is None or _strings(part.agreed))
        and (part.live is None or isinstance(part.live, int))
    )
    if not sound:
        return "a field of another type"
    if len(part.verdicts) != len(part.draft) or not set(part.verdicts) <= set(VERDICTS):
        return "not one known verdict for each draft token"
    if part.agreed is not None and (part.draft or part.choices or part.own is not None):
        return "a draft in beam search"
    if part.agreed is None and len(part.choices) != len(part.emitted):
        return "not one choice for each emitted token"
    return ""
