"""What one sentence's decoding looked like, iteration by iteration, in words."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import typing
from dataclasses import dataclass, field
from typing import Any

from fairseq_specdec.decoding.beam.observed import BeamPass
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
            trace: Trace = _read(cls, plain)
            for number, part in enumerate(trace.iterations, start=1):
                _check(number, part)
        except (TypeError, KeyError) as error:
            raise TraceError("", f"no whole trace ({error})", "decode again") from error
        return trace


def _read(kind: Any, value: Any) -> Any:
    """A value of JSON as a type that annotations name; ``Any``, of a token, is its word. Raises
    TypeError: it is of another. Raises KeyError: a field is unknown."""
    parts = typing.get_args(kind)
    base = typing.get_origin(kind) or (str if kind is Any else kind)
    if type(None) in parts:
        return None if value is None else _read(parts[0], value)
    if dataclasses.is_dataclass(base) and isinstance(value, dict):
        kinds = typing.get_type_hints(base)
        if base is TracedIteration:
            kinds["beam"] = BeamPass | None
        return base(**{name: _read(kinds[name], each) for name, each in value.items()})  # type: ignore[operator]
    if base is list and isinstance(value, list):
        return [_read(parts[0], each) for each in value]
    allowed: tuple[Any, ...] = (int, float) if base is float else (base,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and base is not bool):
        raise TypeError("a field of another type")
    return value


def _check(number: int, part: TracedIteration) -> None:
    """Raise TypeError for an iteration that contradicts itself."""
    problem = ""
    if len(part.verdicts) != len(part.draft) or not set(part.verdicts) <= set(VERDICTS):
        problem = "not one known verdict for each draft token"
    elif part.agreed is not None and (part.draft or part.choices or part.own is not None):
        problem = "a draft in beam search"
    elif part.agreed is None and len(part.choices) != len(part.emitted):
        problem = "not one choice for each emitted token"
    elif part.beam is not None:
        beam: BeamPass = part.beam
        lengths = [(one.known, one.kept, len(one.tokens)) for one in beam.draft]
        counts = [beam.steps, beam.scored, beam.drafted, beam.used, *itertools.chain(*lengths)]
        if min(counts) < 0 or any(known + kept > most for known, kept, most in lengths):
            problem = "a beam that cannot be"
    if problem:
        raise TypeError(f"iteration {number}: {problem}")
