"""The verifier: an autoregressive fairseq Transformer that scores a whole draft in one pass."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .positions import causal_horizon
from .scorer import Scorer


class Verifier:
    """Scores blocks with an ensemble of fairseq Transformers and rolls back by length.

    Args:
        models: the ensemble, from ``--path a.pt:b.pt``.
        temperature: divides the logits, as ``--temperature``.
        read_layers: decoder layers of the first model, counted from 1, whose states ``states``
            gives.
        release: let the models go of the weights that lie packed here, as in ``Linear.of``.
    """

    def __init__(
        self,
        models: List[Any],
        temperature: float = 1.0,
        read_layers: Sequence[int] = (),
        release: bool = False,
    ) -> None:
        self.models = models
        self.temperature = temperature
        self.read_layers = read_layers
        self.release = release
        self.scorers: List[Scorer] = []

    def refresh(self) -> None:
        """The weights may have changed: read them again at the next start."""
        self.scorers = []

    def encode(self, net_input: Dict[str, Any]) -> List[Any]:
        """One encoder output per model, for ``start``.

        Args:
            net_input: fairseq's ``sample["net_input"]``.
        """
        if not self.scorers:
            self.scorers = [
                Scorer(
                    m,
                    f"--path, model {i + 1} of {len(self.models)}",
                    self.read_layers if i == 0 else (),
                    self.release,
                )
                for i, m in enumerate(self.models)
            ]
        return [scorer.encode(net_input) for scorer in self.scorers]

    def start(self, encoder_outs: List[Any], max_len: int, widest: int) -> None:
        """Begin a batch.

        Args:
            encoder_outs: from ``encode``.
            max_len: most target tokens before </s>.
            widest: widest block expected; only sizes the cache.
        """
        for scorer, out in zip(self.scorers, encoder_outs):
            scorer.start(out, max_len, min(max_len + 1, 63) + widest + 1)
        self.rows = encoder_outs[0]["encoder_out"][0].size(1)

    def score(self, block: Tensor, lengths: Tensor, host_lengths: List[int]) -> Tensor:
        """Log-probabilities behind every token of a block.

        Args:
            block: long [B, W]: the last accepted token, then the draft.
            lengths: long [B], accepted tokens of each row; the block's first token stands at
                position lengths[b].
            host_lengths: the same numbers as Python ints.

        Returns:
            float32 [B, W, V]; entry w is the distribution of the token at position
            lengths[b] + w + 1.
        """
        width = block.size(1)
        positions = causal_horizon(lengths, width)
        host_last = [have + width - 1 for have in host_lengths]
        log_probs = []
        for scorer in self.scorers:
            features = scorer.run(block, positions, host_last)
            logits = scorer.stack.vocabulary(features)
            if self.temperature != 1.0:
                logits = logits / self.temperature
            log_probs.append(F.log_softmax(logits, dim=-1, dtype=torch.float32))
        if len(log_probs) == 1:
            return log_probs[0]
        return torch.logsumexp(torch.stack(log_probs), dim=0) - math.log(len(log_probs))

    def states(self) -> Tensor:
        """[B, W, n C]: the states of ``read_layers`` at the block last scored."""
        states = self.scorers[0].stack.read
        assert states is not None, "no block scored, or no layers to read"
        return states

    def commit(self, lengths: Tensor, host_lengths: List[int]) -> None:
        """Keep so many positions of each row; the rest of the block is rolled back."""
        for scorer in self.scorers:
            scorer.stack.cache.commit(lengths, host_lengths)

    def prune(self, keep: Tensor, host_keep: List[int]) -> None:
        """Keep only these rows."""
        for scorer in self.scorers:
            scorer.stack.prune(keep, host_keep)
