"""Drafts of a ``NarBlockDrafter`` in one recorded computation, for CUDA graphs."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_specdec.engine.graphs import Fixed, Shape, bucket, more_rows, row_bucket
from fairseq_specdec.engine.state import Draft, Layout, Rows, horizon_mask
from fairseq_specdec.engine.torch_graphs import BucketSession, StaticSession

from .token_choice import likeliest, without_repeats

CopiedSource = tuple[Tensor, ...] | None


class WholeDraft(NamedTuple):
    """What is recorded: the layers over new tokens and masks, and the choice of their tokens."""

    weights: Any  # a prepared ``NarBlockDrafter`` with a leftward prefix and without a sampler
    layers: BucketSession  # over the first R rows of the cache
    source: CopiedSource  # what masks copy from the source, of R rows; or None
    first: int  # position of the first token
    fresh: int  # F, columns for the tokens accepted since the last draft
    masks: int  # K
    upto: int  # T, slots to look at

    def __call__(self, tokens: Tensor, lengths: Tensor, *states: Tensor) -> tuple[Tensor, Tensor]:
        """Draft after the accepted tokens; their keys and values are in the cache then.

        Args:
            tokens: long [R, T + 1], the start symbol and the accepted tokens.
            lengths: long [R], accepted tokens; the cache lacks at most the last F.
            states: for a drafter that reads hidden states, those that predicted the last F tokens,
                [R, F, n C].

        Returns:
            (tokens long [R, K], lengths long [R]).
        """
        columns = torch.arange(max(self.fresh, self.masks), device=lengths.device)
        known = (lengths + self.first).unsqueeze(1)
        tokens_at = (known + (columns[: self.fresh] - self.fresh)).clamp(min=0)
        masks_at = known + columns[: self.masks]
        everything = (known + (self.masks - 1)).expand(-1, self.masks)
        seen = horizon_mask(torch.cat([tokens_at, everything], 1), self.upto)
        slots = torch.cat([tokens_at, masks_at], 1)
        features = self.layers.run_embedded(
            self._embed(tokens, tokens_at, masks_at, states),
            Layout(slots, slots, self.upto, seen=seen), None, self.masks,
        )  # fmt: skip
        return self._choose(features, tokens.gather(1, lengths.unsqueeze(1)).squeeze(1))

    def _embed(
        self, tokens: Tensor, tokens_at: Tensor, masks_at: Tensor, states: tuple[Tensor, ...]
    ) -> Tensor:
        """[R, F + K, C], what the layers take."""
        read = last = None
        if states:
            read, last = self.weights.states(*states)
        # Column 0 is the start symbol.
        column = tokens_at if self.first == 1 else tokens_at + (1 - self.first)
        x, bias = self.weights.model.decoder.embed_block(
            tokens.gather(1, column), tokens_at, masks_at, self.source, read, last
        )
        assert bias is None, "a decoder with a leftward prefix adds nothing between layers"
        return x  # type: ignore[no-any-return]

    def _choose(self, features: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
        """As ``NarBlockSession`` chooses, with K tokens of each row."""
        options, chain = self.weights.options, self.weights.chain
        logits = self.layers.logits(features)
        logits.select(-1, options.pad).fill_(float("-inf"))  # no number made on the host
        if chain is None:
            drafted, counts = likeliest(logits, options.confidence, whole=True)
        else:
            drafted, counts = chain.whole(features, logits, previous, options.confidence)
        if options.collapse_repeats:
            drafted, counts = without_repeats(drafted, counts)
        return drafted, counts


class GraphedBlock:
    """Drafts of one batch by CUDA graphs, where there are some for its shapes.

    Args:
        weights: as in ``WholeDraft``.
        layers: the decoder's session.
        source: what masks copy from the source, [B, S, ..] each, the last of which marks
            padding; or None.
        first: position of the first token.
    """

    def __init__(
        self, weights: Any, layers: StaticSession, source: CopiedSource, first: int
    ) -> None:
        self.weights = weights
        self.layers = layers
        self.first = first
        self._source = [
            layers.cache.buffer(
                f"source {i}", each, 0, 1, fill=True if each.dtype == torch.bool else None
            )
            for i, each in enumerate(source or ())
        ]

    @classmethod
    def find(
        cls, weights: Any, layers: Any, source: CopiedSource, first: int
    ) -> GraphedBlock | None:
        """For a batch; None where graphs do not serve (a bidirectional prefix, which is computed
        anew and longer each time, or sampled drafts). Arguments as of the class."""
        bidirectional = weights.model.decoder.bidirectional_prefix
        if bidirectional or weights.options.sampler is not None:
            return None
        if not isinstance(layers, StaticSession):
            return None
        return cls(weights, layers, source, first)

    def source(self, rows: int) -> CopiedSource:
        """What the masks of so many rows copy from."""
        if not self._source:
            return None
        return tuple(each.view(rows, self.layers.sources) for each in self._source)

    def draft(self, rows: Rows, masks: int, session: Any) -> Draft | None:
        """A draft of ``masks`` tokens; None where it is to be made without a graph.

        Args:
            rows: what was accepted.
            masks: K, 1 or more.
            session: the ``NarBlockSession``.
        """
        layers, fresh = self.layers, self.weights.options.block_size + 1
        if session.fresh(rows) > fresh:
            return None
        count = len(rows.lengths_cpu)
        upto = bucket(rows.longest + self.first + masks)
        layers.cache.reserve(upto)
        inputs, padded_rows = [rows.tokens[:, : upto + 1], rows.lengths], row_bucket(count)
        shapes: list[Shape] = [((padded_rows, upto + 1), torch.long), ((padded_rows,), torch.long)]
        if self.weights.states is not None:
            states = session.read_states(rows.last_columns(fresh))
            if states is None:  # before the first verification
                return None
            inputs.append(states)
            shapes.append(((padded_rows, fresh, states.size(2)), states.dtype))

        def make() -> Fixed:
            bucketed, source = BucketSession(layers, padded_rows), self.source(padded_rows)
            whole = WholeDraft(self.weights, bucketed, source, self.first, fresh, masks, upto)
            return Fixed(whole.__call__, shapes)

        key, *wider = (
            ("draft", more, masks, upto, layers.sources)
            for more in (padded_rows, *more_rows(padded_rows))
        )
        drafted = layers.cache.calls.run(key, make, inputs, wider)
        if drafted is None:
            return None
        layers.cache.used = max(layers.cache.used, upto)
        session.cached = [have + self.first for have in rows.lengths_cpu]
        return Draft(drafted[0][:count], drafted[1][:count])
