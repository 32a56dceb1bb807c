"""The verifier: an autoregressive fairseq Transformer that scores a whole draft in one pass."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from .decoder_stack import DecoderStack
from .encoder_stack import EncoderStack
from .positions import causal_horizon, horizon_mask, position_rows


class _Scorer:
    """One model of the ensemble: its decoder's stack, embeddings and positions."""

    def __init__(self, model: Any, name: str) -> None:
        decoder = model.decoder
        self.model = model
        self.decoder = decoder
        self.stack = DecoderStack(decoder, name)
        self.encode = EncoderStack(model.encoder)
        self.positions: Optional[Tensor] = None

    def start(self, encoder_out: Any, max_len: int, capacity: int) -> None:
        masks = encoder_out["encoder_padding_mask"]
        states = encoder_out["encoder_out"][0]
        self.stack.start(states, masks[0] if len(masks) > 0 else None, capacity)
        decoder = self.decoder
        if decoder.embed_positions is not None:
            count = max_len + 1
            if self.positions is None or self.positions.size(0) < count:
                table = position_rows(decoder.embed_positions, decoder.padding_idx, count)
                self.positions = table.to(states)

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        decoder = self.decoder
        x = decoder.embed_scale * F.embedding(tokens, decoder.embed_tokens.weight)
        if decoder.project_in_dim is not None:
            x = decoder.project_in_dim(x)
        if self.positions is not None:
            x = x + F.embedding(positions.clamp(max=self.positions.size(0) - 1), self.positions)
        if decoder.layernorm_embedding is not None:
            x = decoder.layernorm_embedding(x)
        return x


class Verifier:
    """Scores blocks with an ensemble of fairseq Transformers and rolls back by length.

    Args:
        models: the ensemble, from ``--path a.pt:b.pt``.
        temperature: divides the logits, as ``--temperature``.
    """

    def __init__(self, models: List[Any], temperature: float = 1.0) -> None:
        self.models = models
        self.temperature = temperature
        self.scorers: List[_Scorer] = []

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
                _Scorer(m, f"--path, model {i + 1} of {len(self.models)}")
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
        rows, width = block.shape
        longest = max(host_lengths)
        upto = longest + width
        positions = causal_horizon(lengths, width)
        mask = None
        even = longest == min(host_lengths)
        if width > 1 or not even:
            mask = horizon_mask(positions, upto)
        log_probs = []
        for scorer in self.scorers:
            cache = scorer.stack.cache
            cache.reserve(upto)
            cache.aim(positions, longest if even else None)
            features = scorer.stack.run(scorer.embed(block, positions), mask, upto)
            logits = scorer.stack.vocabulary(features)
            if self.temperature != 1.0:
                logits = logits / self.temperature
            log_probs.append(F.log_softmax(logits, dim=-1, dtype=torch.float32))
        if len(log_probs) == 1:
            return log_probs[0]
        return torch.logsumexp(torch.stack(log_probs), dim=0) - math.log(len(log_probs))

    def commit(self, lengths: Tensor, host_lengths: List[int]) -> None:
        """Keep so many positions of each row; the rest of the block is rolled back."""
        for scorer in self.scorers:
            scorer.stack.cache.commit(lengths, host_lengths)

    def prune(self, keep: Tensor, host_keep: List[int]) -> None:
        """Keep only these rows."""
        for scorer in self.scorers:
            scorer.stack.prune(keep, host_keep)
