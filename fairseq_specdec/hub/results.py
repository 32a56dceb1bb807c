"""What a translator returns."""

from typing import NamedTuple

from fairseq_specdec.decoding.iteration import TracedIteration
from fairseq_specdec.trace.record import Trace


class Alternative(NamedTuple):
    """A hypothesis of beam search that is not the best; ``str()`` of it is the text. ``text``,
    ``tokens``, ``score``, ``scores``: as in ``Translation``."""

    text: str
    tokens: list[str]
    score: float
    scores: tuple[float, ...] = ()

    def __str__(self) -> str:
        return self.text


class Translation(NamedTuple):
    """One translated text; ``str()`` of it is the text.

    Attributes:
        text: plain text.
        tokens: the output's tokens, without </s>.
        score: as fairseq's: mean log-probability of a token (natural logarithm), unless ``lenpen``
            or ``unnormalized`` says otherwise. 0.0 for an empty text; for several sentences the
            mean of their scores, weighted by their tokens.
        iterations: verifier passes.
        accepted: for each of them, the draft tokens that entered the output.
        drafted: for each, the draft tokens put before the verifier.
        unknown: source tokens that the dictionary does not have.
        trace: everything, if it was asked for; None for several sentences, which have their own.
        alternatives: with ``nbest`` above 1, the other hypotheses, best first; ``nbest`` - 1 of
            them, or fewer where fewer ended before the length limit; for several sentences the
            first ones of all, the second ones and so on, as many as every sentence has.
        scores: log-probability of each token and of the </s> after them, as fairseq's lines ``P-``
            have them; of several sentences one after another.
        sentences: the translations of a text's sentences, whose lists are joined in the fields
            above; () where the text was decoded as one.
        error: with ``on_error="skip"``, why a text was not decoded; its translation is empty.
    """

    text: str
    tokens: list[str]
    score: float
    iterations: int
    accepted: list[int]
    drafted: list[int]
    unknown: int
    trace: Trace | None = None
    alternatives: tuple[Alternative, ...] = ()
    scores: tuple[float, ...] = ()
    sentences: tuple["Translation", ...] = ()
    error: str | None = None

    def __str__(self) -> str:
        return self.text


class Piece(NamedTuple):
    """What one iteration added to a translation: ``text``, characters that are certain now (with a
    beam those that all hypotheses have), and its trace, None for the last piece of a sentence and
    for what is between two."""

    text: str
    iteration: TracedIteration | None
