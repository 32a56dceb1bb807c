"""Seconds of passes and drafts, by how many tokens they are over."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fairseq_specdec.engine.work import Pass

from .figures import Figures


class PassTimes(NamedTuple):
    """How long a verifier and its drafter take.

    Attributes:
        verifying: seconds of a pass of the verifier over so many tokens, of all rows together.
        drafting: ``drafting(rows, size)``, seconds of drafting so many tokens for each of the rows.
        beside: seconds of an iteration that drafts which are neither.
    """

    verifying: Callable[[float], float]
    drafting: Callable[[int, int], float]
    beside: float = 0.0


def seconds(figures: Figures, passes: Sequence[Pass], live: int, resident: int) -> float:
    """Seconds of some passes one after the other.

    Args:
        figures: of the processor.
        passes: what they do for a sentence.
        live: sentences.
        resident: bytes of all weights that take turns in the caches.
    """
    total = 0.0
    for work, rows, times in passes:
        count = rows * live
        if count <= 0:
            continue
        products = {
            number_format: figures.multiply(number_format, count, multiply_adds)
            for number_format, multiply_adds in work.multiply_adds.items()
        }
        slowest = max((figures.between[each] for each in work.multiply_adds), default=0.0)
        taken = count * work.breadth * slowest
        if products:
            reading = figures.read(work.nbytes, resident)
            longest = max(products, key=products.__getitem__)
            taken += figures.overlapped(sum(products.values()), reading, resident, longest)
        total += times * taken
    return total + figures.start


def linear(column: float, drafter: float) -> PassTimes:
    """Times, in passes of the verifier over one token, that grow along a line.

    Args:
        column: each further token of a pass.
        drafter: a pass of the drafter over one token; each further token takes ``column`` of it.
    """
    return PassTimes(
        lambda tokens: 1 + column * (tokens - 1),
        lambda rows, size: drafter * (1 + column * (rows * size - 1)),
    )
