"""A small autoregressive Transformer as drafter, decoded token by token with its own cache."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_specdec.engine.backend import TORCH, Backend
from fairseq_specdec.engine.draft import Draft
from fairseq_specdec.engine.hypotheses import Hypotheses
from fairseq_specdec.engine.layout import Layout, first_slots
from fairseq_specdec.engine.transfer import to_device
from fairseq_specdec.engine.transformer import TransformerSession, TransformerWeights
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


class AutoregressiveDrafter(Drafter):
    """Drafts up to ``block_size`` tokens, one step of a small model a token: the approximation
    model of speculative sampling (Leviathan et al. 2023, section 2.3, gamma tokens), the small
    model of Big Little Decoder (Kim et al. 2023, section 3.2).

    Tokens accepted since the last call are read in the same pass that drafts the first new one.
    Drafts that were accepted are in the cache already; rejected ones are rolled back by length.
    A row's draft ends with a drafted </s>, at the length limit, or where the model is unsure;
    other rows continue.
    """

    for_beams = True

    def __init__(self, model: Any, options: DraftOptions) -> None:
        self.model = model
        self.options = options
        self.block_size = options.block_size

    def prepare(self, verifier: Any, backend: Backend = TORCH) -> ReadyDrafter:
        backend = move_to_verifier(self.model, verifier, self.options, backend)
        weights = TransformerWeights.of(self.model, "--drafter-path", backend)
        return ReadyAutoregressiveDrafter(weights, self.options, own_encoder=True)


class ReadyAutoregressiveDrafter(NamedTuple):
    """Drafts with a small model whose weights were read. ``own_encoder``: run the small model's
    encoder; else attend to the verifier's encoder output."""

    weights: TransformerWeights
    options: DraftOptions
    own_encoder: bool

    @property
    def in_library(self) -> bool:
        return False

    def passes(self, rows: int, size: int) -> Sequence[Pass] | None:
        work = self.weights.work()
        return None if work is None else [Pass(each, 1) for each in work] * size

    def open(self, source: Source) -> DraftSession:
        weights = self.weights
        # For a source that is too long for the small model's position table, nothing is drafted.
        if source.net_input["src_tokens"].size(1) > weights.model.encoder.max_positions():
            return SilentSession()
        encoder_out = source.encoder_out
        if self.own_encoder:
            with source.timer("drafter_encoder"):
                encoder_out = weights.encode(source.net_input, source.padded)
        # Drafting the token at a position takes the token before it as input.
        last = min(source.max_len, weights.decoder.max_positions())
        capacity = first_slots(last) + self.options.block_size + 1
        with source.timer("drafter"):
            session = weights.open(encoder_out, last - 1, capacity)
        return AutoregressiveSession(session, self.options, last)


class AutoregressiveSession(DraftSession):
    """The small model's cache for one batch. ``last``: most tokens of an output that the small
    model can draft."""

    forecasts = True

    def __init__(self, session: TransformerSession, options: DraftOptions, last: int) -> None:
        self.session = session
        self.options = options
        self.last = last

    def propose(self, hypotheses: Hypotheses, budget: Budget = None, costs: Costs = None) -> Draft:
        # Before anything else: the cache and the hypotheses tell which drafts were accepted.
        self._roll_back(hypotheses)
        steps = min(self.options.block_size, self.last - hypotheses.shortest)
        if budget is not None:
            steps = min(steps, budget)
        if steps <= 0:
            return Draft.empty(hypotheses.lengths)
        return self._draft(hypotheses, steps)

    def forecast(
        self, hypotheses: Hypotheses, kept: list[int], hidden_states: States, steps: int, count: int
    ) -> Forecast | None:
        lengths_cpu, cached = hypotheses.lengths_cpu, self.session.layers.cache.lengths_cpu
        # The last token is read in any case.
        known = [min(*three) for three in zip(cached, lengths_cpu, (keep + 1 for keep in kept))]
        self.session.commit(to_device(known, hypotheses.lengths.device), known)
        steps = min(steps, self.last - hypotheses.longest)
        if steps <= 0:
            return None
        self.session.layers.cache.reserve(max(lengths_cpu) + steps)
        inputs, at = self._unread(hypotheses)
        ranked = []
        for step in range(steps):
            layout = Layout.at(at, [have + step for have in lengths_cpu])
            logits = self.session.logits(self.session.run(inputs, layout)[:, -1])
            logits[:, self.options.pad] = float("-inf")
            ranked.append(F.log_softmax(logits, -1, dtype=torch.float32).topk(count, dim=-1))
            inputs = ranked[-1].indices[:, :1]
            at = (hypotheses.lengths + (step + 1)).unsqueeze(1)
        read = [have + steps for have in lengths_cpu]
        self.session.commit(hypotheses.lengths + steps, read)
        log_probs, tokens = zip(*ranked)
        return Forecast(torch.stack(log_probs, 1), torch.stack(tokens, 1))

    def _roll_back(self, hypotheses: Hypotheses) -> None:
        """Remove drafts that were not accepted from the cache.

        Accepted tokens are draft tokens in the cache, except for the last one, the bonus token.
        """
        cache = self.session.layers.cache
        lengths = torch.minimum(cache.lengths, hypotheses.lengths)
        pairs = zip(cache.lengths_cpu, hypotheses.lengths_cpu)
        self.session.commit(lengths, [min(known, have) for known, have in pairs])

    def _unread(self, hypotheses: Hypotheses) -> tuple[Tensor, Tensor]:
        """(tokens long [B, W], positions long [B, W]) accepted since the last draft.

        Columns end at each row's last accepted token, so rows with fewer new tokens run some tokens
        a second time, which writes the same keys and values.
        """
        cached = self.session.layers.cache.lengths_cpu
        fresh = max(have + 1 - known for have, known in zip(hypotheses.lengths_cpu, cached))
        columns = torch.arange(1 - fresh, 1, device=hypotheses.lengths.device)
        at = (hypotheses.lengths.unsqueeze(1) + columns).clamp(min=0)
        return hypotheses.tokens.gather(1, at), at

    def _draft(self, hypotheses: Hypotheses, steps: int) -> Draft:
        """Up to ``steps`` tokens of each row."""
        lengths, lengths_cpu = hypotheses.lengths, hypotheses.lengths_cpu
        self.session.layers.cache.reserve(max(lengths_cpu) + steps)
        inputs, at = self._unread(hypotheses)
        room = (self.last - lengths).clamp(min=0, max=steps)
        counts = torch.zeros_like(lengths)
        open_rows = room > 0
        drafted: list[Tensor] = []
        chances: list[Tensor] = []
        scores: list[Tensor] = []
        for step in range(steps):
            layout = Layout.at(at, [have + step for have in lengths_cpu])
            token, sure = self._choose(self.step_logits(inputs, layout), chances, scores)
            if sure is not None:
                open_rows = open_rows & sure
            drafted.append(token)
            counts = counts + open_rows
            open_rows = open_rows & (token != self.options.eos) & (counts < room)
            # Waiting for a GPU would cost more than the steps that it might save.
            if step + 1 == steps or (not token.is_cuda and not bool(open_rows.any())):
                break
            inputs = token.unsqueeze(1)
            at = (lengths + (step + 1)).unsqueeze(1)
        passes = width = len(drafted)
        if not counts.is_cuda:
            width = int(counts.max())
        self.session.commit(lengths + passes, [have + passes for have in lengths_cpu])
        log_probs = torch.stack(chances, 1)[:, :width] if chances else None
        own = torch.stack(scores, 1)[:, :width] if scores else None
        tokens = torch.stack(drafted, 1)[:, :width]
        return Draft(tokens, counts, log_probs, passes, scores=own)

    def step_logits(self, inputs: Tensor, layout: Layout) -> Tensor:
        """[B, V], of the last column; they hold until the next step."""
        if inputs.size(1) == 1:  # wider ones may repeat a position, and are no chain
            logits = self.session.run_graph(inputs, layout, TransformerSession.logits)
            if logits is not None:
                return logits[:, -1]
        return self.session.logits(self.session.run(inputs, layout)[:, -1])

    def _choose(
        self, logits: Tensor, chances: list[Tensor], scores: list[Tensor]
    ) -> tuple[Tensor, Tensor | None]:
        """The next token of each row, long [B], and bool [B] where the model is sure enough, or
        None where that does not matter.

        Args:
            logits: [B, V], edited in place.
            chances: takes the log-probabilities [B, V] that the tokens were drawn from.
            scores: takes those of the tokens, [B], before truncation, where they are kept.
        """
        options = self.options
        logits[:, options.pad] = float("-inf")
        if options.stop_below == 0 and options.sampler is None and not options.scored:
            return logits.argmax(-1), None
        if options.temperature != 1.0:
            logits = logits / options.temperature
        log_probs = F.log_softmax(logits, dim=-1, dtype=torch.float32)
        highest, token = log_probs.max(-1)
        sure = highest.exp() >= options.stop_below if options.stop_below > 0 else None
        if options.sampler is not None:
            probabilities = options.sampler.warp(log_probs)
            token = options.sampler.draw(probabilities)
            chances.append(probabilities.log())
        if options.scored:
            scores.append(log_probs.gather(1, token.unsqueeze(1)).squeeze(1))
        return token, sure

    def select(self, rows: Tensor, rows_cpu: list[int]) -> None:
        self.session.select(rows, rows_cpu)

    def close(self) -> None:
        self.session.close()
