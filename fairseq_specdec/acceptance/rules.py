"""Acceptance rules: how many leading draft tokens the verifier keeps, and which token follows.

A rule is one class with ``accept``; each fits on a page. A rule that the native library judges by
says so in ``native_form``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft, ascending
from fairseq_specdec.errors import UsageError

# What fairseq itself puts into every dictionary; fairseq-preprocess pads it to a multiple of 8.
NO_NUMBER = re.compile(r"<s>|<pad>|</s>|<unk>|madeupword\d+")
INTEGER = re.compile(r"[+-]?\d+", re.ASCII)


class Acceptance(NamedTuple):
    """Verdict on a block."""

    counts: Tensor  # long [B], accepted draft tokens of each row (0 .. length of its draft)
    next_token: Tensor  # long [B], the bonus token: the verifier's own after the accepted ones
    # long [B, K + 1], the accepted tokens, the bonus token, then any; None where nothing holds them
    tokens: Tensor | None = None


class AcceptanceRule:
    """Decides how many leading draft tokens are kept.

    Class attributes:
        lossless: the output equals that of the verifier alone.
        draft_independent: the output, or its distribution, does not depend on the draft.
        needs_draft_probabilities: the rule reads the draft's ``log_probs``.
        keeps_forced: a draft token that is the only one that constraints allow is kept, so that a
            prefix is verified as one draft.
        trusts_endings: a draft that ends the sentence is the output, whole and unverified.
    """

    lossless = False
    draft_independent = False
    needs_draft_probabilities = False
    keeps_forced = False
    trusts_endings = False

    def native_form(self) -> tuple[int, float] | None:
        """(beta, tau), of the ``TopBetaRule`` by which the native library judges as ``accept``
        does; None where it cannot. A subclass that changes ``accept`` changes this too."""
        return None

    def read_vocabulary(self, symbols: Sequence[str]) -> None:
        """Read the dictionary, for rules that depend on it; called once, before decoding. Raises
        ValueError: the rule cannot be used with such tokens."""

    def accept(self, draft: Draft, scores: Scores) -> Acceptance:
        """Judge a chain of draft tokens.

        Args:
            draft: K draft tokens per row.
            scores: the verifier's, of K + 1 entries, each given the draft tokens before it, with
                every decoding constraint applied (forbidden tokens have -inf).
        """
        raise NotImplementedError


def leading(kept: Tensor, lengths: Tensor) -> Tensor:
    """Length of the leading run of kept tokens.

    Args:
        kept: bool [B, K], K >= 1.
        lengths: long [B], tokens of each row that count.

    Returns:
        long [B], the number of kept tokens before the first one that is not (the bifurcation
        position of Ge et al. 2022, equation 7).
    """
    columns = ascending(kept.size(1), kept.device)
    # The smallest column that is not kept; a kept one never stops before the row's length.
    return torch.where(kept, lengths.unsqueeze(1), columns).amin(1)


def judged(kept: Tensor, lengths: Tensor, best: Tensor) -> Acceptance:
    """The verdict that follows from a keep/reject decision per position (shapes as above)."""
    if kept.size(1) == 0:  # one kernel less to launch
        return Acceptance(lengths, best[:, 0])
    counts = leading(kept, lengths)
    return Acceptance(counts, best.gather(1, counts.unsqueeze(1)).squeeze(1))


class ExactRule(AcceptanceRule):
    """Top-1 match (Ge et al. 2022, equations 5 and 7; Stern et al. 2018, section 3).

    Whatever is drafted, the output is the verifier's greedy output.
    """

    lossless = True
    draft_independent = True
    keeps_forced = True

    def native_form(self) -> tuple[int, float]:
        return 1, 0.0

    def accept(self, draft: Draft, scores: Scores) -> Acceptance:
        best = scores.best()
        verdict = judged(draft.tokens == best[:, :-1], draft.sizes, best)
        return verdict._replace(tokens=best)


class TopBetaRule(AcceptanceRule):
    """Relaxed verification (Ge et al. 2022, equations 8 and 9; Xia et al. 2023, section 3.2).

    Args:
        top_beta: a draft token must be among the ``top_beta`` best tokens, 1 or more.
        tau: and at most this far (natural log) below the best one, 0 or more.
    """

    keeps_forced = True

    def __init__(self, top_beta: int, tau: float) -> None:
        self.top_beta = top_beta
        self.tau = tau

    def native_form(self) -> tuple[int, float]:
        return self.top_beta, self.tau

    def accept(self, draft: Draft, scores: Scores) -> Acceptance:
        best, tokens = scores.best(), draft.tokens
        matches = tokens == best[:, :-1]
        gap = scores.gap(tokens)
        near = (gap <= self.tau) & (gap < math.inf)
        # Only these depend on the rank, and hardly any of them is reached.
        asked = near & ~matches & (near | matches).cumprod(1).bool()
        kept = matches | scores.among_best(tokens, self.top_beta, asked)
        return judged(kept, draft.sizes, best)


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
    values: Tensor  # [V], once the vocabulary was read

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon

    def read_vocabulary(self, symbols: Sequence[str]) -> None:
        """Read the numbers of the tokens; raises as ``token_values``."""
        # float64 holds the integers of any vocabulary exactly.
        self.values = torch.tensor(token_values(symbols), dtype=torch.float64)

    def accept(self, draft: Draft, scores: Scores) -> Acceptance:
        tokens = draft.tokens
        values = self.values.to(tokens.device)
        best = scores.best()
        choice = best[:, :-1]
        # A distance to or from NaN is NaN, and comparing it gives False.
        near = (values[tokens] - values[choice]).abs() <= self.epsilon
        possible = scores.gap(tokens) < math.inf
        return judged((near & possible) | (tokens == choice), draft.sizes, best)


class MinimumBlockRule(AcceptanceRule):
    """At least l tokens are added in every iteration: Stern et al. 2018, section 5.3.

    The verifier's own token is one of them, so the first l - 1 draft tokens are kept without
    a judgement, if there are so many and the decoding constraints allow them.

    Args:
        rule: judges the rest.
        minimum: l, 2 or more.
    """

    keeps_forced = True

    def __init__(self, rule: AcceptanceRule, minimum: int) -> None:
        self.rule = rule
        self.minimum = minimum

    def read_vocabulary(self, symbols: Sequence[str]) -> None:
        self.rule.read_vocabulary(symbols)

    def accept(self, draft: Draft, scores: Scores) -> Acceptance:
        verdict = self.rule.accept(draft, scores)
        if draft.width == 0:
            return verdict
        possible = scores.gap(draft.tokens) < math.inf
        forced = leading(possible, draft.sizes).clamp(max=self.minimum - 1)
        counts = torch.maximum(verdict.counts, forced)
        return Acceptance(counts, scores.best().gather(1, counts.unsqueeze(1)).squeeze(1))
