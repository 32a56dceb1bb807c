"""The non-autoregressive block drafter of GAD and SpecDec, decoded with a cached prefix."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fairseq_specdec.engine.backend import TORCH, AnyDecoder, AnyDecoderSession, AnyEncoder, Backend
from fairseq_specdec.engine.draft import Draft
from fairseq_specdec.engine.eager.positions import learned_limit
from fairseq_specdec.engine.hypotheses import Hypotheses
from fairseq_specdec.engine.layout import Layout, first_slots, horizon_mask
from fairseq_specdec.engine.native.decoder import NativeDecoder
from fairseq_specdec.engine.transfer import to_device
from fairseq_specdec.engine.work import Pass

from .base import (
    Budget,
    Costs,
    Drafter,
    DraftOptions,
    DraftSession,
    Forecast,
    ReadyDrafter,
    SilentSession,
    Source,
    States,
    move_to_verifier,
)
from .chain_search import ChainSearch, all_words, chain_candidates
from .graphed_block import GraphedBlock
from .hidden_state_queue import BlockSession, HiddenStateQueue
from .listed_words import ListedWords
from .mask_count import MaskLimits
from .native_block import NativeBlockDrafter, NativeBlockSession
from .state_products import StateProducts
from .token_choice import likeliest, without_repeats


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
            is not for a drafter with a chain head, nor with ``collapse_repeats`` or ``confidence``.
    """

    for_beams = True
    whole_on_gpu = True

    def __init__(self, model: Any, options: DraftOptions) -> None:
        self.model = model
        self.options = options
        self.block_size = options.block_size
        self.read_layers = getattr(model.encoder, "read_layers", ())
        self.adaptive = not model.decoder.whole_blocks
        self.ends_early = options.any_confidence or options.confidence > 0

    def prepare(self, verifier: Any, backend: Backend = TORCH) -> ReadyDrafter:
        backend = move_to_verifier(self.model, verifier, self.options, backend)
        model = backend.once((self.model, verifier), lambda: self.model.for_verifier(verifier))
        decoder, encoder = model.decoder, model.encoder
        reads = bool(self.read_layers)
        layers = backend.decoder(decoder, "--drafter-path", (), encoder)
        word_list = self.model.word_list
        drafts_listed = self.options.sampler is None and not self.options.unverified_passes
        candidates = chain_candidates(self.options)
        native = backend.once(
            ("block drafter", decoder, drafts_listed, candidates),
            lambda: NativeBlockDrafter.find(decoder, layers, self.options, word_list),
        )
        states = chain = None
        if reads and native is None:
            states = backend.once(
                ("states", decoder), lambda: StateProducts(decoder, backend.frees)
            )
        if decoder.chain and native is None:
            chain = backend.once(
                ("chain", decoder, candidates), lambda: ChainSearch(decoder, candidates)
            )
        return ReadyNarBlockDrafter(
            model, self.options, layers, None if self.read_layers else backend.encoder(encoder),
            states, chain, native, word_list if drafts_listed else None,
        )  # fmt: skip


class ReadyNarBlockDrafter(NamedTuple):
    """Drafts with a ``SpecDrafter`` whose weights were read."""

    model: Any  # the drafter's model, for its settings and embeddings
    options: DraftOptions
    layers: AnyDecoder  # of its decoder
    encode: AnyEncoder | None  # its encoder; None for an ``AttachedDrafter``
    # its products of the verifier's hidden states; None for any but an ``AttachedDrafter``
    states: StateProducts | None
    # chooses among candidates of neighbouring masks; None without a chain head
    chain: ChainSearch | None
    # all of it in the native library; then ``states`` and ``chain`` are None
    native: NativeBlockDrafter | None
    # the words to draft, a ``WordList``; None for all words, as drafts whose distributions are over
    # the vocabulary need
    word_list: Any

    @property
    def in_library(self) -> bool:
        return self.native is not None and not self.options.collapse_repeats

    def passes(self, rows: int, size: int) -> Sequence[Pass] | None:
        if not isinstance(self.layers, NativeDecoder):
            return None
        # The next draft reads what was accepted of this one, and the token after it.
        fresh = sum(NarBlockDrafter.first_chance**place for place in range(size + 1))
        stack = self.layers.stack
        vocabulary = stack.vocabulary_work
        if self.word_list is not None:
            vocabulary = vocabulary.share(self.word_list.expected_share(rows))
        passes = [Pass(stack.layer_work, fresh + size), Pass(stack.end_work, size)]
        passes.append(Pass(vocabulary, size))
        if self.native is not None:
            passes += self.native.passes(rows, size, fresh)
        return passes

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
                return NativeBlockSession(self.native, self.options, source, encoder_out)
            return NarBlockSession(self, source, encoder_out)


Revealed = tuple[Tensor, Tensor] | None
"""Tokens of a block, long [B, K], and bool [B, K], which of its masks they stand for."""


class _Columns(NamedTuple):
    """Places of the tokens accepted since the last draft (ragged, padded to W), then of K masks."""

    tokens_at: Tensor  # long [B, W], positions of the new tokens
    masks_at: Tensor  # long [B, K], positions of the masks
    layout: Layout  # slots of both
    mask: Tensor | None  # bool [B, 1, W + K, T], or None where all is seen
    known: Tensor  # long [B], positions that hold tokens


class NarBlockSession(BlockSession):
    """A session whose drafts torch computes."""

    forecasts = True

    def __init__(
        self, drafter: ReadyNarBlockDrafter, source: Source, encoder_out: dict[str, Any]
    ) -> None:
        decoder, options = drafter.model.decoder, drafter.options
        self.decoder = decoder
        self.options = options
        self.weights = drafter
        self.max_len = source.max_len
        self.dtype = decoder.like.dtype
        self.first = int(decoder.start_symbol)  # position of the first token
        limit = learned_limit(decoder.embed_positions, decoder.padding_idx)
        self.limits = MaskLimits(
            options.block_size, self.max_len, self.first, limit, decoder.whole_blocks,
            drafter.states is not None, options.row_independent,
        )  # fmt: skip
        self.states = HiddenStateQueue(self.dtype)
        masks = encoder_out["encoder_padding_mask"]
        self.layers: AnyDecoderSession = drafter.layers.open(
            encoder_out["encoder_out"][0].to(self.dtype),
            masks[0] if len(masks) > 0 else None,
            first_slots(self.max_len + 1) + 2 * options.block_size + 2,
        )
        positions = self.max_len + options.block_size + 1
        self.source = decoder.start_source(source.net_input["src_tokens"], positions)
        self.listed = ListedWords.find(
            decoder, self.layers, drafter.word_list, source.net_input["src_tokens"]
        )
        self.graphed = GraphedBlock.find(drafter, self.layers, self.source, self.first)
        if self.graphed is not None:
            self.source = self.graphed.source(len(source.net_input["src_tokens"]))

    def propose(self, hypotheses: Hypotheses, budget: Budget = None, costs: Costs = None) -> Draft:
        masks = self.limits.of_iteration(hypotheses, budget)
        if masks == 0:
            return Draft.empty(hypotheses.lengths)
        if self.graphed is not None:  # a recorded draft is the same for all costs
            draft = self.graphed.draft(hypotheses, masks, self.states)
            if draft is not None:
                return draft
        costs = costs if self.options.any_confidence else None
        return self._choose(hypotheses, self._features(hypotheses, masks), costs)

    def forecast(
        self, hypotheses: Hypotheses, kept: list[int], hidden_states: States, steps: int, count: int
    ) -> Forecast | None:
        masks = self.limits.masks(hypotheses, steps)
        if masks == 0:
            return None
        cached = self.layers.cache.lengths_cpu
        known = [min(have, keep + self.first) for have, keep in zip(cached, kept)]
        self.layers.commit(to_device(known, hypotheses.lengths.device), known)
        if hidden_states is not None:
            self.states.add(*hidden_states)
        features = self._features(hypotheses, masks)[:, :steps]
        logits = self.layers.logits(features)
        logits[..., self.options.pad] = float("-inf")
        if self.weights.chain is not None:
            return Forecast(
                *self.weights.chain.rank(features, logits, hypotheses.last().squeeze(1), count)
            )
        return Forecast(*logits.log_softmax(-1, dtype=torch.float32).topk(count, dim=-1))

    def block(
        self, hypotheses: Hypotheses, masks: int, revealed: Revealed = None
    ) -> tuple[Tensor, Tensor]:
        """What K masks predict, however long the hypotheses are: features [B, K, C'] and logits
        [B, K, V]."""
        features = self._features(hypotheses, masks, revealed)
        return features, self.layers.logits(features)

    def _features(self, hypotheses: Hypotheses, masks: int, revealed: Revealed = None) -> Tensor:
        """[B, K, C'] of the masks; what was accepted is in the cache then."""
        columns = self._columns(hypotheses, masks)
        x, layer_bias = self._embed(hypotheses, columns, revealed)
        features = self.layers.run(x, columns.layout, columns.mask, layer_bias, masks)
        if not self.decoder.bidirectional_prefix:
            lengths_cpu = [have + self.first for have in hypotheses.lengths_cpu]
            self.layers.commit(columns.known, lengths_cpu)
        return features

    def _columns(self, hypotheses: Hypotheses, masks: int) -> _Columns:
        """The places of new tokens and masks; there is room for them in the cache.

        A bidirectional prefix is never committed, so there everything is new each time.
        """
        cache, bidirectional = self.layers.cache, self.decoder.bidirectional_prefix
        cached = cache.lengths_cpu
        new = [have + self.first - done for have, done in zip(hypotheses.lengths_cpu, cached)]
        if not self.decoder.num_layers:  # masks see no tokens
            new = [0] * len(new)
        fresh = max(new)
        even = hypotheses.even and min(new) == fresh
        columns = torch.arange(fresh + masks, device=hypotheses.lengths.device)
        tokens_at = cache.lengths.unsqueeze(1) + columns[:fresh]
        known = hypotheses.lengths + self.first
        masks_at = known.unsqueeze(1) + columns[:masks]
        upto = hypotheses.longest + self.first + masks
        cache.reserve(upto + 1)
        seen = None
        if not (even and bidirectional):  # there every position sees them all
            everything = (known + (masks - 1)).unsqueeze(1)
            tokens_see = everything.expand(-1, fresh) if bidirectional else tokens_at
            seen = horizon_mask(torch.cat([tokens_see, everything.expand(-1, masks)], 1), upto)
        slots = tokens_at
        if not even:
            # Columns after a row's new tokens hold nothing: they write to an unused slot.
            slots = torch.where(tokens_at < known.unsqueeze(1), tokens_at, cache.capacity - 1)
            tokens_at = tokens_at.clamp(max=hypotheses.tokens.size(1) - 2 + self.first)
        slots = torch.cat([slots, masks_at], 1)
        layout = Layout(slots, slots, upto, cached[0] if even else None)
        return _Columns(tokens_at, masks_at, layout, seen, known)

    def _embed(
        self, hypotheses: Hypotheses, columns: _Columns, revealed: Revealed = None
    ) -> tuple[Tensor, Tensor | None]:
        """What the layers take: [B, W + K, C], and the bias of every layer but the first."""
        fresh = columns.tokens_at.size(1)
        read = last = None
        observed = self.states.take()
        if observed is not None and self.weights.states is not None:
            states, sizes = observed
            seen = states[:, :fresh] if self.decoder.num_layers else states
            read, last = self.weights.states(seen, sizes)
            # Before the first draft nothing predicted the start symbol.
            if read is not None and self.layers.cache.lengths_cpu[0] == 0 and self.first == 1:
                read = nn.functional.pad(read, (0, 0, 1, 0))[:, :fresh]
        # Column 0 of the hypotheses is the start symbol.
        column = columns.tokens_at if self.first == 1 else columns.tokens_at + (1 - self.first)
        tokens = hypotheses.tokens.gather(1, column)
        embedded: tuple[Tensor, Tensor | None] = self.decoder.embed_block(
            tokens, columns.tokens_at, columns.masks_at, self.source, read, last, revealed
        )
        return embedded

    def _choose(
        self, hypotheses: Hypotheses, features: Tensor, costs: Sequence[float] | None
    ) -> Draft:
        """The draft, from the masks' features [B, K, C']."""
        options, lengths = self.options, hypotheses.lengths
        words = all_words
        if self.listed is not None:
            logits, words = self.listed.logits(features), self.listed.words
        else:
            logits = self.layers.logits(features)
            logits[..., options.pad] = float("-inf")
        if options.sampler is not None:
            log_probs = (logits / options.temperature).log_softmax(-1, dtype=torch.float32)
            chances = options.sampler.warp(log_probs)
            drafted = options.sampler.draw(chances)
            return Draft(drafted, torch.full_like(lengths, logits.size(1)), chances.log())
        if self.weights.chain is None:
            columns, counts = likeliest(logits, options.confidence, costs=costs)
            drafted = words(columns)
        else:
            before = hypotheses.last().squeeze(1)
            chain, least = self.weights.chain, options.confidence
            drafted, counts = chain(features, logits, before, least, costs, words)
        if options.collapse_repeats:
            drafted, counts = without_repeats(drafted, counts)
        return Draft(drafted, counts)

    def select(self, rows: Tensor, rows_cpu: list[int]) -> None:
        super().select(rows, rows_cpu)
        if self.listed is not None:
            self.listed.select(rows)
        if self.graphed is not None:
            self.source = self.graphed.source(len(rows_cpu))
        elif self.source is not None:
            self.source = tuple(x.index_select(0, rows) for x in self.source)
