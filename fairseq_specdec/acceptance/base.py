"""What an acceptance rule is given and what it answers."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

import torch
from torch import Tensor


class Acceptance(NamedTuple):
    """Verdict on a block.

    Attributes:
        counts: long [B], accepted draft tokens of each row (0 .. length of its draft).
        next_token: long [B], the verifier's own token behind the accepted ones. After a fully
            accepted block it is a free, additional token.
    """

    counts: Tensor
    next_token: Tensor


class AcceptanceRule:
    """Decides how many leading draft tokens are kept.

    Class attributes:
        lossless: the output equals what the verifier alone would have produced.
        any_draft: what comes out, or its distribution, does not depend on what is drafted.
        needs_draft_probabilities: the rule asks for ``draft_log_probs``.
    """

    lossless = False
    any_draft = False
    needs_draft_probabilities = False

    def read_vocabulary(self, symbols: Sequence[str]) -> None:
        """Learn what the tokens stand for, if that matters; called once, before decoding.

        Args:
            symbols: V, the target dictionary's.

        Raises:
            ValueError: the rule makes no sense for such tokens.
        """

    def accept(
        self,
        draft: Tensor,
        lengths: Tensor,
        log_probs: Tensor,
        best: Tensor,
        draft_log_probs: Optional[Tensor] = None,
    ) -> Acceptance:
        """Judge a block of drafts.

        Args:
            draft: long [B, K], draft tokens, anything behind a row's length.
            lengths: long [B], draft tokens of each row.
            log_probs: float [B, K+1, V], the verifier's log-probabilities at each position,
                given the draft tokens before it, with every decoding constraint applied
                (forbidden tokens are -inf).
            best: long [B, K+1], the verifier's choice at each position.
            draft_log_probs: float [B, K, V], the distributions that the draft tokens were drawn
                from; None where the drafter gives none.
        """
        raise NotImplementedError


def leading(kept: Tensor, lengths: Tensor) -> Tensor:
    """Length of the leading run of kept tokens.

    Args:
        kept: bool [B, K].
        lengths: long [B], tokens of each row that count.

    Returns:
        long [B], the number of kept tokens before the first one that is not (the bifurcation
        position of paper 000, equation 7).
    """
    columns = torch.arange(kept.size(1), device=kept.device)
    kept = kept & (columns < lengths.unsqueeze(1))
    return kept.long().cumprod(1).sum(1)


def judged(kept: Tensor, lengths: Tensor, best: Tensor) -> Acceptance:
    """The verdict that follows from a keep/reject decision per position (shapes as above)."""
    counts = leading(kept, lengths)
    return Acceptance(counts, best.gather(1, counts.unsqueeze(1)).squeeze(1))
