"""Drafts of a ``NarBlockDrafter`` in one recorded computation, for CUDA graphs."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_specdec.engine.draft import Draft
from fairseq_specdec.engine.eager.static_decoder import BucketSession, StaticSession
from fairseq_specdec.engine.graphs import Fixed, Outputs, Shape, bucket, more_rows, row_bucket
from fairseq_specdec.engine.hypotheses import Hypotheses
from fairseq_specdec.engine.layout import Layout, horizon_mask

from .hidden_state_queue import HiddenStateQueue
from .token_choice import likeliest, without_repeats

CopiedSource = tuple[Tensor, ...] | None


class WholeDraft(NamedTuple):
    """What is recorded: the layers over new tokens and masks, and the choice of their tokens."""

    weights: Any  # a ``ReadyNarBlockDrafter`` with a leftward prefix and without a sampler
    layers: BucketSession  # over the first R rows of the cache
    source: CopiedSource  # what masks copy from the source, of R rows; or None
    first: int  # position of the first token
    fresh: int  # F, columns for the tokens accepted since the last draft
    masks: int  # K
    upto: int  # T, slots to look at. The last one takes what is written and never read

    def __call__(
        self, tokens: Tensor, cached: Tensor, lengths: Tensor, *observed: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Draft after the accepted tokens; their keys and values are in the cache then.

        Args:
            tokens: long [R, T + 1], the start symbol and the accepted tokens.
            cached: long [R], slots that are committed; at most F fewer than there are positions
                with tokens.
            lengths: long [R], accepted tokens.
            observed: for a drafter that reads hidden states, those of the uncached tokens
                [R, F, n C], and how many count, long [R].

        Returns:
            (tokens long [R, K], lengths long [R]).
        """
        columns = torch.arange(max(self.fresh, self.masks), device=lengths.device)
        known = (lengths + self.first).unsqueeze(1)
        tokens_at = cached.unsqueeze(1) + columns[: self.fresh]
        masks_at = known + columns[: self.masks]
        # Columns after a row's new tokens hold nothing: they write to the unused slot.
        unused = self.upto - 1
        slots = torch.cat([torch.where(tokens_at < known, tokens_at, unused), masks_at], 1)
        everything = (known + (self.masks - 1)).expand(-1, self.masks)
        seen = horizon_mask(torch.cat([tokens_at, everything], 1), self.upto)
        features = self.layers.run(
            self._embed(tokens, tokens_at.clamp(max=unused), masks_at, observed),
            Layout(slots, slots, self.upto), seen, None, self.masks,
        )  # fmt: skip
        return self._choose(features, tokens.gather(1, lengths.unsqueeze(1)).squeeze(1))

    def _embed(
        self, tokens: Tensor, tokens_at: Tensor, masks_at: Tensor, observed: tuple[Tensor, ...]
    ) -> Tensor:
        """[R, F + K, C], what the layers take."""
        read = last = None
        if observed:
            states, sizes = observed
            read, last = self.weights.states(states, sizes.clamp(min=1))  # 0: a row of no sentence
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
            layers.cache.keep(
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

    def draft(self, hypotheses: Hypotheses, masks: int, states: HiddenStateQueue) -> Draft | None:
        """A draft of ``masks`` tokens; None where it is to be made without a graph.

        Args:
            hypotheses: what was accepted.
            masks: K, 1 or more.
            states: hidden states that were not read; taken where there is a draft.
        """
        layers, cache, fresh = self.layers, self.layers.cache, self.weights.options.block_size + 1
        reads = self.weights.states is not None
        pairs = zip(hypotheses.lengths_cpu, cache.lengths_cpu)
        new = max(have + self.first - done for have, done in pairs)
        # Before the first draft there are no states, or none for the start symbol.
        if new > fresh or (reads and (not states.events or cache.lengths_cpu[0] == 0)):
            return None
        rows = len(hypotheses.lengths_cpu)
        upto = bucket(hypotheses.longest + self.first + max(masks, fresh) + 1)
        cache.reserve(upto)
        observed = states.take() if reads else None
        drafted = self._run(hypotheses, observed, fresh, masks, upto)
        if drafted is None:
            if observed is not None:
                states.add(*observed)
            return None
        known = [have + self.first for have in hypotheses.lengths_cpu]
        layers.commit(hypotheses.lengths + self.first, known)
        return Draft(drafted[0][:rows], drafted[1][:rows])

    def _run(
        self,
        hypotheses: Hypotheses,
        observed: tuple[Tensor, Tensor] | None,
        fresh: int,
        masks: int,
        upto: int,
    ) -> Outputs | None:
        """A ``WholeDraft`` of these shapes, if it is recorded."""
        layers, padded_rows = self.layers, row_bucket(len(hypotheses.lengths_cpu))
        inputs = [hypotheses.tokens[:, : upto + 1], layers.cache.lengths, hypotheses.lengths]
        one: Shape = ((padded_rows,), torch.long)
        shapes: list[Shape] = [((padded_rows, upto + 1), torch.long), one, one]
        if observed is not None:
            states, sizes = observed
            inputs += [states[:, :fresh], sizes]
            shapes += [((padded_rows, fresh, states.size(2)), states.dtype), one]

        def make() -> Fixed:
            bucketed, source = layers.bucketed(padded_rows), self.source(padded_rows)
            whole = WholeDraft(self.weights, bucketed, source, self.first, fresh, masks, upto)
            return Fixed(whole.__call__, shapes)

        key, *wider = (
            ("draft", more, masks, upto, layers.sources)
            for more in (padded_rows, *more_rows(padded_rows))
        )
        return layers.cache.calls.run(key, make, inputs, wider)
