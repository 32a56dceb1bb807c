"""A batch's drafts from lists of words, with torch's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_specdec.engine.eager.packed_module import PackedModule
from fairseq_specdec.engine.eager.static_decoder import StaticSession

LEAST_GAIN = 3
"""A batch whose lists have more than this part of the vocabulary together takes the product with
all of it, as in the native library (word_list.cpp)."""


class ListedWords:
    """The words that each row drafts from, and their logits.

    Args:
        decoder: a ``BlockDecoder``.
        lists: of the batch's sentences, ``models.word_list.Lists``.
        product: of features and the whole vocabulary, [B, K, C] to [B, K, V].
    """

    def __init__(self, decoder: Any, lists: Any, product: Callable[[Tensor], Tensor]) -> None:
        rows = len(lists.sizes)
        columns = torch.arange(int(lists.sizes.max()))
        self.there = columns < lists.sizes.unsqueeze(1)
        self.ids = torch.zeros(self.there.shape, dtype=torch.long)
        self.ids[self.there] = lists.ids
        self.columns = self.ids
        self.product = product
        projection = decoder.output_projection
        if isinstance(projection, PackedModule):
            return
        weight = projection.weight.detach()
        union = lists.ids if rows == 1 else lists.ids.unique()
        if len(union) * LEAST_GAIN > len(weight):
            return
        self.columns = torch.searchsorted(union, self.ids)
        weight = weight[union]
        self.product = lambda features: nn.functional.linear(features, weight)

    @classmethod
    def find(
        cls, decoder: Any, layers: Any, word_list: Any, src_tokens: Tensor
    ) -> ListedWords | None:
        """For a batch; None where any word is drafted: without a list, and on a GPU, where the
        product takes little of a draft's time and recorded computations have fixed sizes.

        Args:
            word_list: a ``WordList`` or None.
            src_tokens: long [B, S].
        """
        if word_list is None or src_tokens.is_cuda or isinstance(layers, StaticSession):
            return None
        return cls(decoder, word_list.of(src_tokens), layers.logits)

    def logits(self, features: Tensor) -> Tensor:
        """[B, K, L] of features [B, K, C], of each row's words in order; -inf after its last."""
        logits = self.product(features)
        at = self.columns.unsqueeze(1).expand(-1, logits.size(1), -1)
        return logits.gather(2, at).masked_fill(~self.there.unsqueeze(1), float("-inf"))

    def words(self, columns: Tensor) -> Tensor:
        """The words of each row at some columns of its logits, long [B, ..] to [B, ..]."""
        return self.ids.gather(1, columns.flatten(1)).view_as(columns)

    def select(self, rows: Tensor) -> None:
        self.there, self.ids, self.columns = (
            each.index_select(0, rows) for each in (self.there, self.ids, self.columns)
        )
