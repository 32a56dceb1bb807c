"""Keep a draft token whose value is close to the verifier's choice."""

import math
import re
from collections.abc import Sequence

import torch
from torch import Tensor

from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft
from fairseq_specdec.errors import UsageError

from .base import Acceptance, AcceptanceRule, judged

# What fairseq itself puts into every dictionary; fairseq-preprocess pads it to a multiple of 8.
NO_NUMBER = re.compile(r"<s>|<pad>|</s>|<unk>|madeupword\d+")
INTEGER = re.compile(r"[+-]?\d+", re.ASCII)


def token_values(symbols: Sequence[str]) -> list[float]:
    """The numbers that the tokens of a dictionary spell; NaN for fairseq's special symbols. Raises
    ValueError: a symbol that is no integer, or no integers at all."""
    values = []
    for symbol in symbols:
        if INTEGER.fullmatch(symbol):
            values.append(float(int(symbol)))
        elif NO_NUMBER.fullmatch(symbol):
            values.append(math.nan)
        else:
            raise UsageError(
                "--accept-epsilon",
                f"the dictionary holds {symbol!r}, and distances are between integers only",
                "use --accept-top-k, or leave it out",
            )
    if all(math.isnan(value) for value in values):
        raise UsageError("--accept-epsilon", "the dictionary holds no integers", "leave it out")
    return values


class DistanceRule(AcceptanceRule):
    """``d(draft, best) <= epsilon`` with ``d(u, v) = |u - v|``: Stern et al. 2018, section 5.2.

    Tokens without a value (</s>) are kept only where they are the verifier's own choice.

    Args:
        epsilon: 0 or more, in units of the tokens' numbers (intensities of pixels); 0 is exact.
    """

    keeps_forced = True

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon
        self.values: Tensor | None = None

    def read_vocabulary(self, symbols: Sequence[str]) -> None:
        """Read the numbers of the tokens; raises as ``token_values``."""
        # float64 holds the integers of any vocabulary exactly.
        self.values = torch.tensor(token_values(symbols), dtype=torch.float64)

    def accept(self, draft: Draft, scores: Scores) -> Acceptance:
        if self.values is None:
            raise UsageError("--accept-epsilon", "no vocabulary was read")
        tokens = draft.tokens
        values = self.values.to(tokens.device)
        best = scores.best()
        choice = best[:, :-1]
        # A distance to or from NaN is NaN, and comparing it gives False.
        near = (values[tokens] - values[choice]).abs() <= self.epsilon
        possible = scores.gap(tokens) < float("inf")
        return judged((near & possible) | (tokens == choice), draft.sizes, best)
