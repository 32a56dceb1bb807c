"""A small autoregressive Transformer as drafter, decoded token by token with its own cache."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_specdec.acceptance.sampling import Sampler
from fairseq_specdec.verifier.scorer import Scorer

from .base import Draft, Drafter


class AutoregressiveDrafter(Drafter):
    """Drafts up to ``window`` tokens, one step of a small model a token: the approximation model of
    speculative sampling (Leviathan et al. 2023, section 2.3), the small model of Big Little Decoder
    (paper 003, section 3.2).

    Tokens accepted since the last call are read in the same pass that drafts the first new one.
    Drafts that were accepted are in the cache already; rejected ones are rolled back by length.
    A row's draft ends with a drafted </s>, at the length limit, or where the model is unsure; its
    neighbours go on.

    Args:
        model: a fairseq ``TransformerModel`` over the verifier's dictionaries.
        window: gamma, most tokens of a draft, 1 or more.
        pad: padding index, never drafted.
        eos: index of </s>, behind which nothing is drafted.
        stopwatch: times ``drafter_encoder``, and the start of a batch as ``drafter``.
        dtype: number format to run in, or None for the verifier's.
        stop_below: a row stops before the first token that was to come from a distribution whose
            largest probability is below this (alpha_FB of paper 003, equation 3): 0 .. 1, where 0
            never stops; None is 0.
        temperature: divides the logits.
        sampler: draws the tokens and tells their distributions; None drafts the likeliest ones.
        release: let the model go of the weights that lie packed here, as in ``Linear.of``.
    """

    def __init__(
        self,
        model: Any,
        window: int,
        pad: int,
        eos: int,
        stopwatch: Any,
        dtype: Optional[torch.dtype] = None,
        stop_below: Optional[float] = None,
        temperature: float = 1.0,
        sampler: Optional[Sampler] = None,
        release: bool = False,
    ) -> None:
        self.model = model
        self.window = window
        self.pad = pad
        self.eos = eos
        self.stopwatch = stopwatch
        self.dtype = dtype
        self.stop_below = stop_below
        self.temperature = temperature
        self.sampler = sampler
        self.release = release
        self.scorer: Optional[Scorer] = None

    def refresh(self) -> None:
        self.scorer = None

    def start(self, net_input: Dict[str, Any], max_len: int, encoder_out: Dict[str, Any]) -> None:
        if self.scorer is None:
            self.scorer = Scorer(self.model, "--drafter-path", release=self.release)
        # A source that the small model cannot place in its position table is left to the verifier.
        self.silent = net_input["src_tokens"].size(1) > self.model.encoder.max_positions()
        if self.silent:
            return
        encoder_out = self.encode(net_input, encoder_out)
        # Drafting the token at a position takes the token before it as input.
        self.last = min(max_len, self.model.decoder.max_positions())
        capacity = min(self.last, 63) + self.window + 1
        with self.stopwatch("drafter"):
            self.scorer.start(encoder_out, self.last - 1, capacity)

    def encode(self, net_input: Dict[str, Any], encoder_out: Dict[str, Any]) -> Dict[str, Any]:
        """What the small model's decoder attends to (arguments as for ``start``)."""
        assert self.scorer is not None
        with self.stopwatch("drafter_encoder"):
            return self.scorer.encode(net_input)

    def propose(self, tokens: Tensor, lengths: Tensor, host_lengths: List[int]) -> Draft:
        room = [0]
        if not self.silent:
            self._roll_back(lengths, host_lengths)
            window = self.window if self.most is None else min(self.window, self.most)
            room = [max(0, min(window, self.last - have)) for have in host_lengths]
        if max(room) == 0:
            return Draft(tokens.new_zeros(tokens.size(0), 0), torch.zeros_like(lengths))
        return self._draft(tokens, lengths, host_lengths, max(room))

    def stand_by(self, lengths: Tensor, host_lengths: List[int]) -> None:
        # Now, while it can be told which of the drafts last fed were accepted.
        if not self.silent:
            self._roll_back(lengths, host_lengths)

    def _roll_back(self, lengths: Tensor, host_lengths: List[int]) -> None:
        """Forget drafts that were not accepted.

        Accepted tokens are drafts as they were fed, but for the last one, which the verifier chose.
        """
        assert self.scorer is not None
        cache = self.scorer.stack.cache
        host = [min(known, have) for known, have in zip(cache.host_lengths, host_lengths)]
        cache.commit(torch.minimum(cache.lengths, lengths), host)

    def _draft(self, tokens: Tensor, lengths: Tensor, host_lengths: List[int], steps: int) -> Draft:
        assert self.scorer is not None
        cache = self.scorer.stack.cache
        cache.reserve(max(host_lengths) + steps)
        # Columns end at each row's last accepted token, so rows with less to read read a few
        # tokens again, to the same effect.
        fresh = max(have + 1 - known for have, known in zip(host_lengths, cache.host_lengths))
        columns = torch.arange(1 - fresh, 1, device=tokens.device)
        at = (lengths.unsqueeze(1) + columns).clamp(min=0)
        inputs = tokens.gather(1, at)
        room = (self.last - lengths).clamp(min=0, max=steps)
        counts = torch.zeros_like(lengths)
        open_rows = room > 0
        drafted: List[Tensor] = []
        chances: List[Tensor] = []
        for step in range(steps):
            host_last = [have + step for have in host_lengths]
            features = self.scorer.run(inputs, at, host_last)[:, -1]
            logits = self.scorer.stack.vocabulary(features)
            logits[:, self.pad] = float("-inf")
            token, sure = self._choose(logits, chances)
            if sure is not None:
                open_rows = open_rows & sure
            drafted.append(token)
            counts = counts + open_rows
            open_rows = open_rows & (token != self.eos) & (counts < room)
            # Asking a GPU would cost more than the steps that it might save.
            if step + 1 == steps or (not token.is_cuda and not bool(open_rows.any())):
                break
            inputs = token.unsqueeze(1)
            at = (lengths + (step + 1)).unsqueeze(1)
        passes = width = len(drafted)
        if not counts.is_cuda:
            width = int(counts.max())
        cache.commit(lengths + passes, [have + passes for have in host_lengths])
        log_probs = torch.stack(chances, 1)[:, :width] if chances else None
        return Draft(torch.stack(drafted, 1)[:, :width], counts, log_probs, passes)

    def _choose(self, logits: Tensor, chances: List[Tensor]) -> Tuple[Tensor, Optional[Tensor]]:
        """The next token of each row, long [B], and bool [B] where the model is sure enough, or
        None where that is not asked.

        Args:
            logits: [B, V].
            chances: takes the log-probabilities [B, V] that the tokens were drawn from.
        """
        asked = self.stop_below is not None and self.stop_below > 0
        if not asked and self.sampler is None:
            return logits.argmax(-1), None
        if self.temperature != 1.0:
            logits = logits / self.temperature
        log_probs = F.log_softmax(logits, dim=-1, dtype=torch.float32)
        highest, token = log_probs.max(-1)
        sure = highest.exp() >= self.stop_below if asked else None
        if self.sampler is not None:
            probabilities = self.sampler.warp(log_probs)
            token = self.sampler.draw(probabilities)
            chances.append(probabilities.log())
        return token, sure

    def prune(self, keep: Tensor, host_keep: List[int]) -> None:
        if not self.silent:
            assert self.scorer is not None
            self.scorer.stack.prune(keep, host_keep)
