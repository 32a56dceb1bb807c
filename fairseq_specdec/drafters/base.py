"""The contract between a drafter and the decoding loop."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from torch import Tensor


class Draft(NamedTuple):
    """Proposed tokens.

    Attributes:
        tokens: long [B, K]; what stands behind a row's length is ignored. K may be 0.
        lengths: long [B], draft tokens of each row; 0 makes the iteration an ordinary
            autoregressive step for that row.
        log_probs: float [B, K, V], the distributions that the tokens were drawn from, or None.
        steps: passes of a small model that drafts token by token; 0 for other drafters.
    """

    tokens: Tensor
    lengths: Tensor
    log_probs: Optional[Tensor] = None
    steps: int = 0

    def cut(self, most: int) -> Draft:
        """The first ``most`` tokens of every row."""
        if self.tokens.size(1) <= most:
            return self
        log_probs = None if self.log_probs is None else self.log_probs[:, :most]
        return Draft(self.tokens[:, :most], self.lengths.clamp(max=most), log_probs, self.steps)


class Drafter:
    """Proposes tokens for all live rows of a batch; one instance serves one batch at a time.

    Class attributes:
        read_layers: the verifier's decoder layers, counted from 1, whose states ``observe`` wants;
            empty for a drafter that reads none.
        adaptive: it may be left out of an iteration, and asked for fewer tokens than it can draft.

    Attributes:
        most: tokens that the loop can use of the next draft, 1 or more; None for any number. A
            drafter may draft more, in vain.
    """

    read_layers: Sequence[int] = ()
    adaptive = True
    most: Optional[int] = None

    def start(self, net_input: Dict[str, Any], max_len: int, encoder_out: Dict[str, Any]) -> None:
        """Begin a batch.

        Args:
            net_input: fairseq's ``sample["net_input"]`` (src_tokens [B, S], src_lengths [B]).
            max_len: most target tokens before </s>.
            encoder_out: the (first) verifier's encoder output, as fairseq gives it.
        """

    def observe(self, states: Tensor, sizes: Tensor) -> None:
        """A verification is over. Called only where ``read_layers`` names layers.

        Args:
            states: [B, W, n C], the (first) verifier's states side by side; entry w predicted the
                w-th token after those that were accepted before.
            sizes: long [B], so many tokens of each row were accepted now, at most W.
        """

    def propose(self, tokens: Tensor, lengths: Tensor, host_lengths: List[int]) -> Draft:
        """Draft the tokens that follow the accepted ones.

        Args:
            tokens: long [B, T]; column 0 is </s>, columns 1 .. lengths[b] are accepted.
            lengths: long [B], accepted tokens of each row.
            host_lengths: the same numbers as Python ints.
        """
        raise NotImplementedError

    def stand_by(self, lengths: Tensor, host_lengths: List[int]) -> None:
        """This iteration drafts nothing (arguments as for ``propose``, which is not called)."""

    def prune(self, keep: Tensor, host_keep: List[int]) -> None:
        """Keep only these rows (ascending row numbers; on the device and as Python ints)."""

    def refresh(self) -> None:
        """The weights may have changed: forget what was derived from them."""


class NoDrafter(Drafter):
    """Drafts nothing: plain greedy decoding on this project's engine."""

    def propose(self, tokens: Tensor, lengths: Tensor, host_lengths: List[int]) -> Draft:
        return Draft(tokens.new_zeros(tokens.size(0), 0), lengths.new_zeros(lengths.size(0)))
