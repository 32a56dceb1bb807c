"""The drafter of blockwise parallel decoding: heads of the verifier itself."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch
from torch import Tensor

from fairseq_specdec.verifier.linear import Linear
from fairseq_specdec.verifier.packed_heads import PackedHeads
from fairseq_specdec.verifier.vocabulary import vocabulary_product

from .base import Draft, Drafter


class BlockwiseHeadsDrafter(Drafter):
    """Drafts k - 1 tokens with heads 2 .. k at the state that predicted the last accepted token.

    That state is a by-product of verification, so no model is run for a draft: the n-th
    verification and the (n+1)-st prediction are one invocation, m / k + 1 in all at best (Stern et
    al. 2018, section 4). The first invocation of a sentence has nothing to verify.

    Args:
        model: the verifier, a ``BlockwiseTransformer``; with an ensemble the first of it.
        block_size: k, at most what the heads were trained for.
        pad: padding index, never drafted.
    """

    def __init__(self, model: Any, block_size: int, pad: int) -> None:
        self.model = model
        self.block_size = block_size
        self.pad = pad
        self.read_layers = [len(model.decoder.layers)]
        self.heads: Optional[PackedHeads] = None
        self.state: Optional[Tensor] = None

    def refresh(self) -> None:
        self.heads = None

    def start(self, net_input: Dict[str, Any], max_len: int, encoder_out: Dict[str, Any]) -> None:
        decoder = self.model.decoder
        if self.heads is None and self.block_size > 1:
            self.heads = PackedHeads(decoder.block_heads, 2, self.block_size)
            self.vocabulary = vocabulary_product(decoder)
            narrow = decoder.project_out_dim
            self.project_out = None if narrow is None else Linear.of(narrow)
        self.max_len = max_len
        self.state = None

    def observe(self, states: Tensor, sizes: Tensor) -> None:
        last = (sizes - 1)[:, None, None].expand(-1, 1, states.size(2))
        self.state = states.gather(1, last).squeeze(1)

    def propose(self, tokens: Tensor, lengths: Tensor, host_lengths: List[int]) -> Draft:
        room = min(self.block_size - 1, self.max_len - min(host_lengths))
        if self.state is None or self.heads is None or room < 1:
            return Draft(tokens.new_zeros(tokens.size(0), 0), torch.zeros_like(lengths))
        state = self.state if self.project_out is None else self.project_out(self.state)
        logits = self.vocabulary(self.heads(state)[:, :room])
        logits[..., self.pad] = float("-inf")
        return Draft(logits.argmax(-1), torch.full_like(lengths, room))

    def prune(self, keep: Tensor, host_keep: List[int]) -> None:
        if self.state is not None:
            self.state = self.state.index_select(0, keep)
