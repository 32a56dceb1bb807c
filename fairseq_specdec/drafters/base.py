"""The contract between a drafter and the decoding loop."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

from torch import Tensor


class Draft(NamedTuple):
    """Proposed tokens.

    Attributes:
        tokens: long [B, K]; what stands behind a row's length is ignored. K may be 0.
        lengths: long [B], draft tokens of each row; 0 makes the iteration an ordinary
            autoregressive step for that row.
        log_probs: float [B, K] of the tokens under the drafter, or None.
    """

    tokens: Tensor
    lengths: Tensor
    log_probs: Optional[Tensor] = None


class Drafter:
    """Proposes tokens for all live rows of a batch; one instance serves one batch at a time.

    Class attributes:
        gives_probabilities: ``propose`` fills ``Draft.log_probs``.
    """

    gives_probabilities = False

    def start(self, net_input: Dict[str, Any], max_len: int) -> None:
        """Begin a batch.

        Args:
            net_input: fairseq's ``sample["net_input"]`` (src_tokens [B, S], src_lengths [B]).
            max_len: most target tokens before </s>.
        """

    def propose(self, tokens: Tensor, lengths: Tensor, host_lengths: List[int]) -> Draft:
        """Draft the tokens that follow the accepted ones.

        Args:
            tokens: long [B, T]; column 0 is </s>, columns 1 .. lengths[b] are accepted.
            lengths: long [B], accepted tokens of each row.
            host_lengths: the same numbers as Python ints.
        """
        raise NotImplementedError

    def prune(self, keep: Tensor, host_keep: List[int]) -> None:
        """Keep only these rows (ascending row numbers; on the device and as Python ints)."""

    def refresh(self) -> None:
        """The weights may have changed: forget what was derived from them."""


class NoDrafter(Drafter):
    """Drafts nothing: plain greedy decoding on this project's engine."""

    def propose(self, tokens: Tensor, lengths: Tensor, host_lengths: List[int]) -> Draft:
        return Draft(tokens.new_zeros(tokens.size(0), 0), lengths.new_zeros(lengths.size(0)))
