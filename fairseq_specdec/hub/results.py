"""What a translator returns."""

from __future__ import annotations

from typing import List, NamedTuple, Optional

from fairseq_specdec.trace.record import Trace, TracedIteration
from fairseq_specdec.trace.recorder import TraceBuilder


class Translation(NamedTuple):
    """One translated text; ``str()`` of it is the text.

    Attributes:
        text: plain text.
        tokens: the output's tokens, without </s>.
        score: as fairseq's: mean log-probability of a token (natural logarithm), unless ``lenpen``
            or ``unnormalized`` says otherwise. 0.0 for an empty text.
        iterations: verifier passes.
        accepted: for each of them, the draft tokens that entered the output.
        drafted: for each, the draft tokens put before the verifier.
        unknown: source tokens that the dictionary does not have.
        trace: everything, if it was asked for.
    """

    text: str
    tokens: List[str]
    score: float
    iterations: int
    accepted: List[int]
    drafted: List[int]
    unknown: int
    trace: Optional[Trace] = None

    def __str__(self) -> str:
        return self.text


class Piece(NamedTuple):
    """What one iteration added to a translation.

    Attributes:
        text: characters that are certain now; "" where none became so.
        iteration: its trace; None for the last piece, which ends the text.
    """

    text: str
    iteration: Optional[TracedIteration]


def nothing(trace_builder: TraceBuilder, i: int, source: str, traced: bool) -> Translation:
    """The translation of a text without a visible character."""
    settings = dict(trace_builder.settings)
    trace = Trace(i, trace_builder.strategy, settings, [], [], None, [], source, "")
    return Translation("", [], 0.0, 0, [], [], 0, trace if traced else None)
