"""Whether two systems have the same output, over all hypotheses that are compared."""

from collections.abc import Sequence
from typing import Any, NamedTuple

# Running totals of log-probabilities that are closer are a near-tie: in fp32 rounding may rank them
# either way.
NEAR = 2e-5
# A lossless system's totals may differ by so much, relative to totals above 1.
TOLERANCE = 1e-4


class Output(NamedTuple):
    """A hypothesis: its tokens, </s> included, the log-probability of the first 1, 2, ... of them,
    and what it is ranked by; None where the engine does not report it."""

    tokens: list[int]
    totals: list[float] | None = None
    score: float | None = None


def output_of(hypothesis: dict[str, Any]) -> Output:
    """What fairseq's dictionary of a hypothesis holds."""
    tokens = hypothesis["tokens"].tolist()
    if "score" not in hypothesis:
        return Output(tokens)
    totals = hypothesis["positional_scores"].double().cumsum(0).tolist()
    return Output(tokens, totals, float(hypothesis["score"]))


class Comparison(NamedTuple):
    """Of a sentence."""

    same: bool  # the hypotheses have the same tokens, in one order
    near_tie: bool  # they do not, and two that part came within ``NEAR`` of one another
    # largest difference of their totals, relative to totals above 1; 0 if there are none
    away: float


def compare(mine: Sequence[Output], theirs: Sequence[Output], count: int) -> Comparison:
    """The first ``count`` hypotheses of a sentence; 1 of an engine that reports no scores."""
    if mine[0].totals is None:
        count = 1
    pairs = list(zip(mine[:count], theirs[:count]))
    parted = [pair for pair in pairs if pair[0].tokens != pair[1].tokens]
    if parted or len(mine[:count]) != len(theirs[:count]):
        near = any(_near(one[0], other[1]) for one in parted for other in parted)
        return Comparison(False, near, 0.0)
    totals = [(a.totals[-1], b.totals[-1]) for a, b in pairs if a.totals and b.totals]
    return Comparison(
        True, False, max((abs(a - b) / max(1, abs(b)) for a, b in totals), default=0.0)
    )


def _near(one: Output, other: Output) -> bool:
    """Whether two hypotheses come close at a step after they part, or in their rank."""
    if one.totals is None or other.totals is None or one.tokens == other.tokens:
        return False
    at = next((i for i, (a, b) in enumerate(zip(one.tokens, other.tokens)) if a != b), 0)
    pairs = [*zip(one.totals[at:], other.totals[at:]), (one.score, other.score)]
    return any(abs(a - b) < NEAR for a, b in pairs)  # type: ignore[operator]
