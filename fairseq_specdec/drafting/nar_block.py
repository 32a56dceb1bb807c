"""The non-autoregressive block drafter of GAD and SpecDec, decoded with a cached prefix."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fairseq_specdec.engine.backend import TORCH, AnyDecoder, AnyEncoder, Backend
from fairseq_specdec.engine.session import learned_limit
from fairseq_specdec.engine.state import Draft, Layout, Rows, first_slots, horizon_mask
from fairseq_specdec.engine.torch_graphs import Inputs, Outputs, StaticSession, bucket
from fairseq_specdec.engine.torch_layers import Linear

from .base import (
    Budget,
    Costs,
    Drafter,
    DraftOptions,
    DraftSession,
    SilentSession,
    Source,
    move_to_verifier,
)
from .native_block import NativeBlockDrafter, NativeBlockSession, state_projections
from .token_choice import ChainSearch, chain_candidates, likeliest, shortened


class StateProducts:
    """The projections of a decoder that reads states, as one product for inference."""

    def __init__(self, decoder: Any) -> None:
        self.normalise = decoder.mask_states.normalise
        self.product = Linear.of(*state_projections(decoder))

    def __call__(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """What ``embed_prefix`` and ``embed_masks`` take.

        Args:
            states: [B, W, n C], those that predicted the last W tokens, W >= 1.

        Returns:
            ([B, W, C], [B, 1, C]).
        """
        prefix, masks = self.product(self.normalise(states)).chunk(2, dim=-1)
        return prefix, masks[:, -1:]


def states_at(states: Tensor, columns: Tensor) -> Tensor:
    """[B, W, n C], rows of states [B, T, n C] at columns long [B, W]."""
    return states.gather(1, columns.unsqueeze(2).expand(-1, -1, states.size(2)))


class NarBlockDrafter(Drafter):
    """Predicts k tokens at k [MASK] positions in parallel (Ge et al. 2022, equation 6 and section
    3.2.1; Xia et al. 2023, equations 5 to 7).

    An ``AttachedDrafter`` has no encoder: it attends to the verifier's encoder output and reads the
    verifier's hidden states.

    With a leftward prefix the keys and values of accepted tokens are kept, so an iteration
    computes the newly accepted tokens and the k masks only. The bidirectional prefix of the
    papers changes with every new token and is computed anew.

    Args:
        model: a ``SpecDrafter``, perhaps an ``AttachedDrafter``.
        options: how to draft; ``block_size`` is at most what the drafter was trained for, a sampler
            is not for a drafter with a chain head, nor with ``confidence``.
    """

    whole_on_gpu = True

    # Of a prepared drafter:
    layers: AnyDecoder  # of its decoder
    encode: AnyEncoder | None  # its encoder; None for an ``AttachedDrafter``
    # its products of the verifier's hidden states; None for any but an ``AttachedDrafter``
    states: StateProducts | None = None
    # chooses among candidates of neighbouring masks; None without a chain head
    chain: ChainSearch | None = None
    # all of it in the native library; then ``states`` and ``chain`` are None
    native: NativeBlockDrafter | None = None

    def __init__(self, model: Any, options: DraftOptions) -> None:
        self.model = model
        self.options = options
        self.block_size = options.block_size
        self.read_layers = getattr(model.encoder, "read_layers", ())
        self.adaptive = not model.decoder.whole_blocks
        self.ends_early = options.any_confidence or options.confidence > 0
        self.candidates = chain_candidates(options)

    def prepare(self, verifier: Any, backend: Backend = TORCH) -> NarBlockDrafter:
        ready = copy.copy(self)
        ready._read(verifier, move_to_verifier(self.model, verifier, self.options, backend))
        return ready

    def _read(self, verifier: Any, backend: Backend) -> None:
        options, own = self.options, self.model
        self.model = backend.once((own, verifier), lambda: own.for_verifier(verifier))
        decoder, encoder = self.model.decoder, self.model.encoder
        self.layers = layers = backend.decoder(decoder, (), encoder)
        self.encode = None if self.read_layers else backend.encoder(encoder)
        # Without a verifier, and to sample, the tokens' probabilities are needed.
        if options.sampler is None and options.verified and not decoder.bidirectional_prefix:
            self.native = backend.once(
                ("block drafter", decoder),
                lambda: NativeBlockDrafter.find(decoder, layers, options.pad, own.word_list),
            )
        if self.native is not None:
            self.in_library = True
            return
        if self.read_layers:
            self.states = backend.once(("states", decoder), lambda: StateProducts(decoder))
        if decoder.chain:
            key = ("chain", decoder, self.candidates)
            self.chain = backend.once(key, lambda: ChainSearch(decoder, self.candidates))

    def open(self, source: Source) -> DraftSession:
        encoder_out = source.encoder_out
        if self.encode is not None:
            # For a source that is too long for a learned position table, nothing is drafted.
            encoder = self.model.encoder
            places = getattr(encoder, "embed_positions", None)
            limit = learned_limit(places, encoder.padding_idx)
            if limit is not None and source.net_input["src_tokens"].size(1) > limit:
                return SilentSession()
            with source.timer("drafter_encoder"):
                encoder_out = self.encode(source.net_input, source.padded)
        with source.timer("drafter"):
            if self.native is not None:
                return NativeBlockSession(
                    self.native, self.options, source, encoder_out, self.candidates
                )
            return NarBlockSession(self, source, encoder_out)


class NarBlockSession(DraftSession):
    """A session whose drafts torch computes. Its cache holds accepted tokens; masks are written
    after them, and overwritten by what is accepted."""

    def __init__(
        self, drafter: NarBlockDrafter, source: Source, encoder_out: dict[str, Any]
    ) -> None:
        decoder, options = drafter.model.decoder, drafter.options
        self.decoder = decoder
        self.options = options
        self.weights = drafter
        self.verifier = source.verifier
        self.dtype = decoder.like.dtype
        self.first = int(decoder.start_symbol)  # position of the first token
        self.limit = learned_limit(decoder.embed_positions, decoder.padding_idx)
        states = encoder_out["encoder_out"][0].to(self.dtype)
        self.layers = drafter.layers.open(
            dict(encoder_out, encoder_out=[states]),
            first_slots(source.max_len + 1) + 2 * options.block_size + 2,
        )
        self.cached = [0] * states.size(1)  # positions of each row in the cache
        positions = source.max_len + options.block_size + 1
        self.source = decoder.start_source(source.net_input["src_tokens"], positions)
        # A bidirectional prefix is computed anew, and longer each time.
        recorded = not decoder.bidirectional_prefix and options.sampler is None
        self.static = None
        if recorded and isinstance(self.layers, StaticSession):
            self.static = self.layers
            for i, each in enumerate(self.source or ()):  # a bool one marks padding
                fill = True if each.dtype == torch.bool else None
                self.static.cache.store(f"part {i}", each[None, :, None], fill)

    def propose(self, rows: Rows, budget: Budget = None, costs: Costs = None) -> Draft:
        masks = self.options.block_size if budget is None else min(budget, self.options.block_size)
        if self.limit is not None:
            masks = min(masks, self.limit - rows.longest - self.first)
        if masks < 1:
            return Draft.empty(rows.lengths)
        if self.static is not None:  # a recorded draft is the same for all costs
            draft = self._replay(self.static, rows, masks)
            if draft is not None:
                return draft
        costs = costs if self.options.any_confidence else None
        return self._choose(self._features(rows, masks), rows.tokens, rows.lengths, costs)

    def _replay(self, layers: StaticSession, rows: Rows, masks: int) -> Draft | None:
        """A draft by a CUDA graph; None where there is none for its shapes."""
        cache, fresh = layers.cache, self.options.block_size + 1
        if self.fresh(rows) > fresh:
            return None
        upto = bucket(rows.longest + self.first + masks)
        cache.reserve(upto)
        inputs: Inputs = [(rows.tokens[:, : upto + 1], (upto + 1,)), (rows.lengths, ())]
        if self.weights.states is not None:
            states = self.read_states(rows, fresh)
            if states is None:  # before the first verification
                return None
            inputs = [*inputs, (states, (fresh, states.size(2)))]
        parts = range(len(self.source or ()))

        def whole_draft(tokens: Tensor, lengths: Tensor, *states: Tensor) -> Outputs:
            count, read = len(tokens), states[0] if states else None
            source = [cache.source(f"part {i}", count, layers.sources)[0, :, 0] for i in parts]
            x, layout, layer_bias = self._lay_out(
                tokens, lengths, read, tuple(source) or None, fresh, masks, upto
            )
            features, _ = layers.weights.run(*layers.over(count), x, layout, layer_bias, masks)
            draft = self._choose(features, tokens, lengths, whole=True)
            return draft.tokens, draft.sizes

        drafted = cache.recordings.run(("draft", masks, upto, layers.sources), whole_draft, inputs)
        if drafted is None:
            return None
        self.cached = [have + self.first for have in rows.lengths_cpu]
        return Draft(drafted[0], drafted[1])

    def block(self, rows: Rows, masks: int) -> tuple[Tensor, Tensor]:
        """What K masks predict, however long the rows are: features [B, K, C'] and logits
        [B, K, V]."""
        features = self._features(rows, masks)
        return features, self.layers.logits(features)

    def fresh(self, rows: Rows) -> int:
        """Most positions of a row that its cache lacks. A bidirectional prefix is computed anew."""
        known = [have + self.first for have in rows.lengths_cpu]
        if self.decoder.bidirectional_prefix:
            return max(known)
        return max(have - done for have, done in zip(known, self.cached))

    def read_states(self, rows: Rows, width: int) -> Tensor | None:
        """[B, W, n C], what the drafter reads of the verifier for the last W tokens; None where it
        reads nothing, or nothing was verified yet."""
        if self.weights.states is None or self.verifier is None or self.verifier.states is None:
            return None
        return states_at(self.verifier.states, rows.last_columns(width)).to(self.dtype)

    def _features(self, rows: Rows, masks: int) -> Tensor:
        """[B, K, C'] of the masks; what was accepted is in the cache then."""
        fresh, known = self.fresh(rows), [have + self.first for have in rows.lengths_cpu]
        states = self.read_states(rows, max(fresh, 1))
        run_from = known[0] - fresh if min(known) == max(known) else None
        x, layout, layer_bias = self._lay_out(
            rows.tokens, rows.lengths, states, self.source, fresh, masks, max(known) + masks,
            run_from,
        )  # fmt: skip
        self.cached = known
        return self.layers.run_embedded(x, layout, layer_bias, masks)

    def _lay_out(
        self,
        tokens: Tensor,
        lengths: Tensor,
        states: Tensor | None,
        source: tuple[Tensor, ...] | None,
        fresh: int,
        masks: int,
        upto: int,
        run_from: int | None = None,
    ) -> tuple[Tensor, Layout, Tensor | None]:
        """The last F accepted tokens, which the cache may lack, and K masks after them. A row that
        lacks fewer computes some again, to the same keys and values.

        Args:
            tokens: long [B, T'], the start symbol and the accepted tokens.
            lengths: long [B], accepted tokens.
            states: [B, F or more, n C], those that predicted these tokens; or None.
            source: what masks copy from the source; or None.
            fresh, masks: F and K.
            upto, run_from: as in ``Layout``.

        Returns:
            What ``run_embedded`` takes: [B, F + K, C], its layout, and what layers add or None.
        """
        first = self.first
        known = lengths.unsqueeze(1) + first
        slots = (known + torch.arange(-fresh, masks, device=known.device)).clamp(min=0)
        tokens_at, masks_at = slots[:, :fresh], slots[:, fresh:]
        read = last = None
        if states is not None and self.weights.states is not None:
            read, last = self.weights.states(states)
        # Column 0 is the start symbol, which has a position only if ``first`` is 1.
        x, layer_bias = self.decoder.embed_block(
            tokens.gather(1, tokens_at if first == 1 else tokens_at + 1), tokens_at, masks_at,
            source, read if fresh else None, last,
        )  # fmt: skip
        everything = known + (masks - 1)
        bidirectional = self.decoder.bidirectional_prefix
        tokens_see = everything.expand(-1, fresh) if bidirectional else tokens_at
        seen = horizon_mask(torch.cat([tokens_see, everything.expand(-1, masks)], 1), upto)
        return x, Layout(slots, slots, upto, run_from, seen), layer_bias

    def _choose(
        self,
        features: Tensor,
        tokens: Tensor,
        lengths: Tensor,
        costs: Sequence[float] | None = None,
        whole: bool = False,
    ) -> Draft:
        """The draft, from the masks' features [B, K, C'] and what was accepted. ``whole``: always
        of K tokens, as on a GPU."""
        options, chain = self.options, self.weights.chain
        logits = self.layers.logits(features)
        logits.select(-1, options.pad).fill_(float("-inf"))
        if options.sampler is not None:
            log_probs = (logits / options.temperature).log_softmax(-1, dtype=torch.float32)
            chances = options.sampler.warp(log_probs)
            drafted = options.sampler.draw(chances)
            return Draft(drafted, torch.full_like(lengths, logits.size(1)), chances.log())
        judges = options.confidence > 0 or costs is not None
        if chain is None:
            drafted, sure = likeliest(logits, judges)
        else:
            before = tokens.gather(1, lengths.unsqueeze(1)).squeeze(1)
            drafted, sure = chain.judged(features, logits, before, judges)
        return Draft(*shortened(drafted, sure, options.confidence, costs, whole))

    def keep(self, rows: Tensor, kept: list[int]) -> None:
        self.layers.keep(rows, len(kept))
        self.cached = [self.cached[row] for row in kept]
        if self.source is not None:
            self.source = tuple(x.index_select(0, rows) for x in self.source)

    def close(self) -> None:
        self.layers.close()
