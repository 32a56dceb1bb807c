"""One autoregressive fairseq Transformer, run over a block of tokens behind its cache."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from .decoder_stack import DecoderStack
from .encoder_stack import EncoderStack
from .parts import check_decoder
from .positions import horizon_mask, position_rows


class Scorer:
    """An encoder, and a decoder's stack with its embeddings and positions.

    Args:
        model: fairseq ``TransformerModel`` or any module with its attributes.
        name: what to call the model in errors, e.g. ``--path``.
        read_layers: decoder layers, counted from 1, whose states ``stack.read`` gives.
        release: let the model go of the weights that lie packed here, as in ``Linear.of``.

    Raises:
        ValueError: the decoder has a part that is not run here, named by its flag.
    """

    def __init__(
        self, model: Any, name: str, read_layers: Sequence[int] = (), release: bool = False
    ) -> None:
        self.model = model
        self.decoder = model.decoder
        if isinstance(model.decoder, nn.Module):  # else the first layers of one that was checked
            check_decoder(model.decoder, name)
        self.stack = DecoderStack(model.decoder, name, read_layers, release)
        self.encode = EncoderStack(model.encoder, release)
        self.positions: Optional[Tensor] = None

    def start(self, encoder_out: Any, max_len: int, capacity: int) -> None:
        """Begin a batch.

        Args:
            encoder_out: from ``encode``.
            max_len: largest position that counts; tokens behind it get its embedding.
            capacity: cache slots to prepare.

        Raises:
            ValueError: ``max_len`` is past the learned positions.
        """
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
        """[B, W, C], the decoder's input for tokens (long [B, W]) at positions (long [B, W])."""
        decoder = self.decoder
        x = decoder.embed_scale * decoder.embed_tokens(tokens)
        if decoder.quant_noise is not None:
            x = decoder.quant_noise(x)
        if decoder.project_in_dim is not None:
            x = decoder.project_in_dim(x)
        if self.positions is not None:
            x = x + F.embedding(positions.clamp(max=self.positions.size(0) - 1), self.positions)
        if decoder.layernorm_embedding is not None:
            x = decoder.layernorm_embedding(x)
        return x

    def run(self, tokens: Tensor, positions: Tensor, host_last: List[int]) -> Tensor:
        """Write a block to the cache, and run it with leftward attention.

        Args:
            tokens: long [B, W].
            positions: long [B, W], where each token stands, and its cache slot. Ascending by one;
                a row that has fewer tokens may repeat its first one, at position 0.
            host_last: the positions of the last column as Python ints.

        Returns:
            [B, W, C'] features, ready for ``stack.vocabulary``.
        """
        width = tokens.size(1)
        longest = max(host_last)
        even = longest == min(host_last)
        upto = longest + 1
        cache = self.stack.cache
        cache.reserve(upto)
        cache.aim(positions, upto - width if even else None)
        mask = None if even and width == 1 else horizon_mask(positions, upto)
        return self.stack.run(self.embed(tokens, positions), mask, upto)
