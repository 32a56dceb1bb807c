"""What an acceptance rule is given and what it answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_specdec.engine.scores import Scores
from fairseq_specdec.engine.state import Draft


class Acceptance(NamedTuple):
    """Verdict on a block."""

    counts: Tensor  # long [B], accepted draft tokens of each row (0 .. length of its draft)
    next_token: Tensor  # long [B], the bonus token: the verifier's own after the accepted ones


class NativeRule(NamedTuple):
    """A rule as the native library knows it (Ge et al. 2022, equations 5 and 7 to 9)."""

    top_beta: int = 1  # a draft token must be among so many best tokens; 1 for the best one
    tau: float = 0.0  # and at most so far below the best one, in nats
    regret_budget: float = math.inf  # nats that a sentence may give up


class AcceptanceRule:
    """Decides how many leading draft tokens are kept.

    Attributes:
        spent: float64 [B], nats that each sentence of a batch has given up so far; changed in
            place. None for a rule that does not count them.

    Class attributes:
        lossless: the output equals that of the verifier alone.
        draft_independent: the output, or its distribution, does not depend on the draft.
        needs_draft_probabilities: the rule asks for the draft's ``log_probs``.
        keeps_forced: a draft token that is the only one that constraints allow is kept, so that a
            prefix is verified as one draft.
        trusts_endings: a draft that ends the sentence is the output, whole and unverified.
    """

    lossless = False
    draft_independent = False
    needs_draft_probabilities = False
    keeps_forced = False
    trusts_endings = False
    spent: Tensor | None = None

    def native_form(self) -> NativeRule | None:
        """How the native library judges as ``accept`` does; None where it cannot. A subclass that
        changes ``accept`` changes this too."""
        return None

    def read_vocabulary(self, symbols: Sequence[str]) -> None:
        """Read the dictionary, for rules that depend on it; called once, before decoding. Raises
        ValueError: the rule cannot be used with such tokens."""

    def open(self, rows: int, device: torch.device) -> AcceptanceRule:
        """The rule for one batch: itself, unless it remembers something of each sentence."""
        return self

    def select(self, rows: Tensor) -> None:
        """Keep what is remembered of these rows (long [B'])."""

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
        kept: bool [B, K].
        lengths: long [B], tokens of each row that count.

    Returns:
        long [B], the number of kept tokens before the first one that is not (the bifurcation
        position of Ge et al. 2022, equation 7).
    """
    if kept.size(1) == 0:
        return lengths
    columns = torch.arange(kept.size(1), device=kept.device)
    # The smallest column that is not kept; a kept one never stops before the row's length.
    return torch.where(kept, lengths.unsqueeze(1), columns).amin(1)


def judged(kept: Tensor, lengths: Tensor, best: Tensor) -> Acceptance:
    """The verdict that follows from a keep/reject decision per position (shapes as above)."""
    if kept.size(1) == 0:  # one kernel less to launch
        return Acceptance(lengths, best[:, 0])
    counts = leading(kept, lengths)
    return Acceptance(counts, best.gather(1, counts.unsqueeze(1)).squeeze(1))
