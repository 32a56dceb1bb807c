"""The non-autoregressive block drafter of GAD and SpecDec, decoded with a cached prefix."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor

from fairseq_specdec.acceptance.sampling import Sampler
from fairseq_specdec.verifier.decoder_stack import DecoderStack
from fairseq_specdec.verifier.encoder_stack import EncoderStack
from fairseq_specdec.verifier.positions import horizon_mask, learned_limit

from .base import Draft, Drafter
from .chain_search import ChainSearch
from .state_products import StateProducts

# The chain chooses among so many tokens at each mask: of a row alone, and of each of several, where
# an iteration that one row is spared is worth less than what all rows pay for it.
CHAIN_CANDIDATES = (64, 32)


def without_repeats(tokens: Tensor, lengths: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    """Drop tokens that repeat the one before them.

    Masks that are decoded in parallel cannot see one another's choice and often say the same word
    twice; the verifier hardly ever does, so the words behind the repetition have a better chance
    one place earlier.

    Args:
        tokens: long [B, K].
        lengths: long [B], tokens of each row that count; None for all.

    Returns:
        (tokens long [B, K] with the kept ones in front, lengths long [B]).
    """
    kept = torch.ones_like(tokens, dtype=torch.bool)
    kept[:, 1:] = tokens[:, 1:] != tokens[:, :-1]
    if lengths is not None:
        kept &= torch.arange(tokens.size(1), device=tokens.device) < lengths.unsqueeze(1)
    order = (~kept).long().sort(dim=1, stable=True).indices
    return tokens.gather(1, order), kept.sum(1)


class NarBlockDrafter(Drafter):
    """Predicts k tokens at k [MASK] positions in parallel: paper 000, equation (6) and 3.2.1;
    paper 004, equations (5) to (7).

    An ``AttachedDrafter`` has no encoder: it attends to the verifier's encoder output and reads the
    verifier's decoder states through ``observe``.

    With a leftward prefix the keys and values of accepted tokens are kept, so an iteration
    computes the newly accepted tokens and the k masks only. The bidirectional prefix of the
    papers changes with every new token and is computed anew.

    Args:
        model: a ``SpecDrafter``, perhaps an ``AttachedDrafter``.
        block_size: k, at most what the drafter was trained for.
        pad: padding index, never drafted.
        stopwatch: times ``drafter_encoder``, and the start of a batch as ``drafter``.
        dtype: number format to run in, or None for the verifier's.
        collapse_repeats: draft what ``without_repeats`` leaves of a block.
        confidence: end a draft before the first token that, with all before it, is right with less
            probability than this by the drafter's own estimate; 0 drafts whole blocks. Not with a
            sampler.
        temperature: divides the logits.
        sampler: draws each mask's token and tells the distributions; None drafts the likeliest
            tokens. Not for a drafter with a chain head, nor with ``collapse_repeats``.
        release: let the model go of the weights that lie packed here, as in ``Linear.of``.
    """

    def __init__(
        self,
        model: Any,
        block_size: int,
        pad: int,
        stopwatch: Any,
        dtype: Optional[torch.dtype] = None,
        collapse_repeats: bool = False,
        confidence: float = 0.0,
        temperature: float = 1.0,
        sampler: Optional[Sampler] = None,
        release: bool = False,
    ) -> None:
        self.model = model
        self.decoder = model.decoder
        self.block_size = block_size
        self.pad = pad
        self.stopwatch = stopwatch
        self.dtype = dtype
        self.collapse_repeats = collapse_repeats
        self.confidence = confidence
        self.temperature = temperature
        self.sampler = sampler
        self.release = release
        self.stack: Optional[DecoderStack] = None
        self.read_layers = getattr(model.encoder, "read_layers", ())
        self.observed: List[Any] = []  # since the last draft: (states, sizes), or the rows kept
        self.adaptive = not self.decoder.whole_blocks
        self.first = int(self.decoder.start_symbol)  # where the first token stands
        self.limit = learned_limit(self.decoder.embed_positions, self.decoder.padding_idx)

    def refresh(self) -> None:
        self.stack = None

    def start(self, net_input: Dict[str, Any], max_len: int, encoder_out: Dict[str, Any]) -> None:
        if self.stack is None:
            self.stack = DecoderStack(self.decoder, "--drafter-path", release=self.release)
            self.chain = ChainSearch(self.decoder, CHAIN_CANDIDATES) if self.decoder.chain else None
            self.encode = None
            if self.read_layers:
                self.read_states = StateProducts(self.decoder, self.release)
            else:
                self.encode = EncoderStack(self.model.encoder, self.release)
        self.max_len = max_len
        self.spent = self.silent = False
        if self.encode is not None:
            # A source that its encoder cannot place in a learned table is left to the verifier.
            places = getattr(self.model.encoder, "embed_positions", None)
            most = learned_limit(places, self.model.encoder.padding_idx)
            self.silent = most is not None and net_input["src_tokens"].size(1) > most
            if self.silent:
                return
            with self.stopwatch("drafter_encoder"):
                encoder_out = self.encode(net_input)
        self.observed = []
        masks = encoder_out["encoder_padding_mask"]
        with self.stopwatch("drafter"):
            self.stack.start(
                encoder_out["encoder_out"][0].to(self.decoder.layers[0].fc1.bias.dtype),
                masks[0] if len(masks) > 0 else None,
                min(max_len + 1, 63) + 2 * self.block_size + 2,
            )
            self.source = self.decoder.start_source(
                net_input["src_tokens"], max_len + self.block_size + 1
            )

    def observe(self, states: Tensor, sizes: Tensor) -> None:
        self.observed.append((states, sizes))

    def _states(self) -> Optional[Tuple[Tensor, Tensor]]:
        """All that was observed since the last draft: [B, W, n C], and how many count, long [B].

        Iterations without a draft leave their states unread; they are put side by side here.
        """
        found: List[Tuple[Tensor, Tensor]] = []
        rows: Optional[Tensor] = None
        for event in reversed(self.observed):
            if isinstance(event, Tensor):
                rows = event if rows is None else event[rows]
            else:
                found.append(event if rows is None else tuple(x[rows] for x in event))
        self.observed = []
        if not found:
            return None
        states, sizes = found.pop()
        if found:
            width = sum(more.size(1) for more, _ in found)
            states = torch.nn.functional.pad(states, (0, 0, 0, width))
        for more, size in reversed(found):
            columns = sizes.unsqueeze(1) + torch.arange(more.size(1), device=sizes.device)
            states.scatter_(1, columns.unsqueeze(2).expand(more.shape), more)
            sizes = sizes + size
        return states.to(self.decoder.layers[0].fc1.bias.dtype), sizes

    def propose(self, tokens: Tensor, lengths: Tensor, host_lengths: List[int]) -> Draft:
        assert self.stack is not None
        cache = self.stack.cache
        longest, shortest = max(host_lengths), min(host_lengths)
        room = self.max_len - shortest
        if self.limit is not None:
            room = min(room, self.limit - longest - self.first)
        masks = max(0, min(self.block_size, room))
        if self.most is not None:
            masks = min(masks, self.most)
        if masks > 0 and self.decoder.whole_blocks:
            masks = self.block_size
        # Once without room, states went by unread: a reading drafter stays silent.
        self.spent = self.spent or (masks == 0 and bool(self.read_layers))
        if masks == 0 or self.spent or self.silent:
            return Draft(tokens.new_zeros(tokens.size(0), 0), torch.zeros_like(lengths))

        # Columns: tokens accepted since the last call (ragged, padded to `fresh`), then masks.
        # A bidirectional prefix is never committed, so there everything is new each time.
        cached = cache.host_lengths
        behind = [have + self.first - done for have, done in zip(host_lengths, cached)]
        fresh = max(behind)
        even = longest == shortest and min(behind) == fresh
        columns = torch.arange(fresh + masks, device=tokens.device)
        token_at = cache.lengths.unsqueeze(1) + columns[:fresh]
        known = lengths + self.first  # positions that hold tokens
        mask_at = known.unsqueeze(1) + columns[:masks]
        upto = longest + self.first + masks
        cache.reserve(upto + 1)
        sees_all = (known + masks - 1).unsqueeze(1)
        mask_horizon = sees_all.expand(-1, masks)
        token_horizon = token_at
        if self.decoder.bidirectional_prefix:
            token_horizon = sees_all.expand(-1, fresh)
        slot = token_at
        if not even:
            # Columns behind a row's new tokens hold nothing: they write to a slot nobody reads.
            slot = torch.where(token_at < known.unsqueeze(1), token_at, cache.capacity - 1)
            token_at = token_at.clamp(max=tokens.size(1) - 2 + self.first)
            if self.limit is not None:
                token_at = token_at.clamp(max=self.limit - 1)
        cache.aim(mask_at if even else torch.cat([slot, mask_at], 1), cached[0] if even else None)
        read = last = None
        observed = self._states()
        if observed is not None:
            states, sizes = observed
            read, last = self.read_states(states[:, :fresh], sizes)
            if cached[0] == 0 and self.first == 1:  # nothing predicted the start symbol
                read = torch.nn.functional.pad(read, (0, 0, 1, 0))[:, :fresh]
        column = token_at if self.first == 1 else token_at + 1  # column 0 is the start symbol
        x, again = self.decoder.embed_block(
            tokens.gather(1, column), token_at, mask_at, self.source, read, last
        )
        seen = None
        if not (even and self.decoder.bidirectional_prefix):  # there every position sees them all
            seen = horizon_mask(torch.cat([token_horizon, mask_horizon], 1), upto)
        features = self.stack.run(x, seen, upto, again, masks)
        if not self.decoder.bidirectional_prefix:
            cache.commit(known, [have + self.first for have in host_lengths])
        logits = self.stack.vocabulary(features)
        logits[..., self.pad] = float("-inf")
        if self.sampler is not None:
            log_probs = (logits / self.temperature).log_softmax(-1, dtype=torch.float32)
            chances = self.sampler.warp(log_probs)
            drafted = self.sampler.draw(chances)
            return Draft(drafted, torch.full_like(lengths, masks), chances.log())
        if self.chain is None:
            drafted, counts = self._best(logits)
        else:
            before = tokens.gather(1, lengths.unsqueeze(1)).squeeze(1)
            drafted, counts = self.chain(features, logits, before, self.confidence)
        if self.collapse_repeats:
            return Draft(*without_repeats(drafted, counts))
        return Draft(drafted, counts)

    def _best(self, logits: Tensor) -> Tuple[Tensor, Tensor]:
        """The best token of each mask, and how many of a row the drafter is confident of."""
        drafted = logits.argmax(-1)
        if self.confidence == 0:
            return drafted, drafted.new_full((drafted.size(0),), drafted.size(1))
        chances = torch.softmax(logits, -1, dtype=torch.float32).amax(-1)
        counts = (chances.cumprod(1) >= self.confidence).sum(1)
        if not drafted.is_cuda:  # there it would cost a synchronisation
            drafted = drafted[:, : int(counts.max())]
        return drafted, counts

    def prune(self, keep: Tensor, host_keep: List[int]) -> None:
        assert self.stack is not None
        if self.silent:
            return
        self.stack.prune(keep, host_keep)
        if self.observed:
            self.observed.append(keep)
        if self.source is not None:
            self.source = tuple(x.index_select(0, keep) for x in self.source)
