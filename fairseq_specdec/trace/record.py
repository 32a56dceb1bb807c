"""The iterations of one sentence's decoding, with token texts, and trace files."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from fairseq_specdec.decoding.iteration import VERDICTS, TracedIteration
from fairseq_specdec.errors import UsageError
from fairseq_specdec.io.atomic import check_new_file, write_text

VERSION = 1


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
            if part["agreed"] is None:
                del part["agreed"]
        return plain

    def to_json(self) -> str:
        """One line of JSON, without the line's end."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> Trace:
        """Read what ``to_json`` wrote. Raises UsageError: it is no trace, or not a whole one."""
        try:
            plain = json.loads(line)
            version = plain.pop("version")
            if version != VERSION:
                raise ValueError(f"of version {version}, and this program reads {VERSION}")
            plain["iterations"] = [_iteration(part) for part in plain["iterations"]]
            return cls(**plain)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            remedy = "write one with fairseq-generate --trace-path"
            raise UsageError("", f"no trace ({error})", remedy) from error


def _iteration(plain: dict[str, Any]) -> TracedIteration:
    """An iteration of ``to_dict``. Raises TypeError or KeyError: fields are missing or unknown, or
    contradict each other."""
    of_beams = "live", "beam"  # of earlier releases
    part = TracedIteration(**{name: plain[name] for name in plain if name not in of_beams})
    if len(part.verdicts) != len(part.draft) or not set(part.verdicts) <= set(VERDICTS):
        raise TypeError("not one known verdict for each draft token")
    if part.agreed is None and len(part.choices) != len(part.emitted):
        raise TypeError("not one choice for each emitted token")
    return part


def write_traces(path: str, traces: Iterable[Trace]) -> None:
    """Write a trace file whole: one JSON line per sentence. An existing one is replaced."""
    check_new_file(path, "path")
    write_text(path, "".join(trace.to_json() + "\n" for trace in traces))


def read_traces(path: str) -> list[Trace]:
    """Read a trace file. Raises UsageError: it is none, with the line; OSError: it is not there."""
    traces, place = [], path
    try:
        with open(path, encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                place = f"{path}, line {number}"
                if line.strip():
                    traces.append(Trace.from_json(line))
    except (UnicodeDecodeError, UsageError) as error:
        raise UsageError(place, error) from error
    return traces
