"""What a translator returns."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from fairseq_specdec.decoding.iteration import TracedIteration
from fairseq_specdec.trace.record import Trace
from fairseq_specdec.trace.recorder import TraceBuilder

from .text import TextCodec


class Alternative(NamedTuple):
    """A hypothesis of beam search that is not the best; ``str()`` of it is the text. ``text``,
    ``tokens``, ``score``, ``scores``: as of ``Translation``."""

    text: str
    tokens: List[str]
    score: float
    scores: Tuple[float, ...] = ()

    def __str__(self) -> str:
        return self.text


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
        alternatives: with ``nbest`` above 1, the other hypotheses, best first; ``nbest`` - 1 of
            them, or fewer where fewer ended before the length limit.
        scores: log-probability of each token and of the </s> after them, as fairseq's lines ``P-``
            have them.
    """

    text: str
    tokens: List[str]
    score: float
    iterations: int
    accepted: List[int]
    drafted: List[int]
    unknown: int
    trace: Optional[Trace] = None
    alternatives: Tuple[Alternative, ...] = ()
    scores: Tuple[float, ...] = ()

    def __str__(self) -> str:
        return self.text


class Piece(NamedTuple):
    """What one iteration added to a translation.

    Attributes:
        text: characters that are certain now; "" where none became so. In beam search those that
            all hypotheses have.
        iteration: its trace; None for the last piece, which ends the text.
    """

    text: str
    iteration: Optional[TracedIteration]


def translation(codec: TextCodec, ranked: List[Dict[str, Any]], unknown: int) -> Translation:
    """The translation of a text."""
    alternatives = []
    for hypothesis in ranked:
        tokens = codec.words(hypothesis["tokens"].tolist())
        scores = tuple(hypothesis["positional_scores"].tolist())
        score = float(hypothesis["score"])
        alternatives.append(Alternative(codec.join(tokens), tokens, score, scores))
    first, best, trace = alternatives[0], ranked[0], ranked[0]["iterations"]
    return Translation(
        *first[:3], best["steps"], trace.accepted, list(map(len, trace.drafts)), unknown,
        alternatives=tuple(alternatives[1:]), scores=first.scores,
    )  # fmt: skip


def nothing(trace_builder: TraceBuilder, i: int, source: str, traced: bool) -> Translation:
    """The translation of a text without a visible character."""
    settings = dict(trace_builder.settings)
    trace = Trace(i, trace_builder.strategy, settings, [], [], None, [], source, "")
    return Translation("", [], 0.0, 0, [], [], 0, trace if traced else None)
