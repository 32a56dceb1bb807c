"""The verifier's distributions of the next tokens, computed on demand."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from torch import Tensor


class Edits(NamedTuple):
    """Decoding constraints, as changes of single log-probabilities.

    Attributes:
        everywhere: (token, what is added to its log-probability) at every entry.
        token: the token that ``banned`` bans, </s>.
        banned: bool [B, W], where ``token`` is impossible; or None.
        listed: long [B, W, n], tokens that are impossible, -1 for none; or None.
        forced: long [B, W], the only possible token, -1 where any is; or None.
    """

    everywhere: Tuple[Tuple[int, float], ...] = ()
    token: int = 0
    banned: Optional[Tensor] = None
    listed: Optional[Tensor] = None
    forced: Optional[Tensor] = None


class Scores:
    """The distributions of the tokens that follow each of a block's W tokens, for B rows.

    A backend computes only what is asked for. Where every token is banned, log-probabilities are
    -inf; where the model computed NaN, they are NaN.
    """

    def edit(self, edits: Edits) -> None:
        """Apply decoding constraints, once, before anything is asked."""
        raise NotImplementedError

    def best(self) -> Tensor:
        """Long [B, W], the likeliest tokens; equal ones rank as in ``torch.topk``."""
        raise NotImplementedError

    def gap(self, tokens: Tensor) -> Tensor:
        """Float32 [B, N], how far the log-probabilities of tokens (long [B, N]) at the first N
        entries are below the best ones; not finite for an impossible token."""
        raise NotImplementedError

    def of(self, tokens: Tensor) -> Tensor:
        """Float32 [B, N], the log-probabilities of tokens (long [B, N]) at the first N entries."""
        raise NotImplementedError

    def among_best(self, tokens: Tensor, count: int, asked: Tensor) -> Tensor:
        """Bool [B, N], where ``asked`` (bool [B, N]), ``tokens`` (long [B, N]) are possible, and
        fewer than ``count`` tokens are likelier at the first N entries."""
        raise NotImplementedError

    def topk(self, count: int) -> Tuple[Tensor, Tensor]:
        """(log-probabilities float32 [B, W, k], tokens long [B, W, k]), in falling order."""
        raise NotImplementedError

    def dense(self) -> Tensor:
        """Float32 [B, W, V], every log-probability: for sampling."""
        raise NotImplementedError
