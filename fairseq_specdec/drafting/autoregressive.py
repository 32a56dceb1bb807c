"""A small autoregressive Transformer as drafter, decoded token by token with its own cache."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_specdec.engine.backend import TORCH, AnySession, Backend
from fairseq_specdec.engine.state import Draft, Layout, Rows
from fairseq_specdec.engine.transformer import Transformer
from fairseq_specdec.errors import UsageError

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


class AutoregressiveDrafter(Drafter):
    """Drafts up to ``block_size`` tokens, one step of a small model a token: the approximation
    model of speculative sampling (Leviathan et al. 2023, section 2.3, gamma tokens), the small
    model of Big Little Decoder (Kim et al. 2023, section 3.2).

    Tokens accepted since the last call are read in the same pass that drafts the first new one.
    Drafts that were accepted are in the cache already; rejected ones are rolled back by length.
    A row's draft ends with a drafted </s>, at the length limit, or where the model is unsure;
    other rows continue.
    """

    weights: Transformer  # of a prepared drafter

    def __init__(self, model: Any, options: DraftOptions) -> None:
        self.model = model
        self.options = options
        self.block_size = options.block_size

    def prepare(self, verifier: Any, backend: Backend = TORCH) -> Drafter:
        ready = copy.copy(self)
        backend = move_to_verifier(self.model, verifier, self.options, backend)
        ready.weights = Transformer.read(self.model, backend)
        return ready

    def open(self, source: Source) -> DraftSession:
        model, encode = self.model, self.weights.encode
        # For a source that is too long for the small model's position table, nothing is drafted.
        if source.net_input["src_tokens"].size(1) > model.encoder.max_positions():
            return SilentSession()
        encoder_out = source.encoder_out
        if encode is not None:
            with source.timer("drafter_encoder"):
                encoder_out = encode(source.net_input, source.padded)
        # Drafting the token at a position takes the token before it as input.
        last = min(source.max_len, model.decoder.max_positions())
        with source.timer("drafter"):
            session = self.weights.open(encoder_out, last - 1, self.options.block_size)
        return AutoregressiveSession(
            session, self.options, last, len(source.net_input["src_tokens"])
        )


class EarlyExitDrafter(AutoregressiveDrafter):
    """Drafts with the first n decoder layers of an ``EarlyExitTransformer`` (Kim et al. 2023, 4.4).

    The source is read once: the verifier's encoder output serves both. Drafts have a session of
    their own, with a cache of n layers that is rolled back by length. The verification computes all
    layers of drafted tokens, which fills the keys and values of the upper layers with actual ones
    (section 7.2.2).
    """

    def __init__(self, model: Any, options: DraftOptions) -> None:
        super().__init__(_first_layers(model), options)

    def prepare(self, verifier: Any, backend: Backend = TORCH) -> EarlyExitDrafter:
        ready, part = copy.copy(self), _first_layers(verifier)
        ready.model = part
        ready.weights = backend.once(
            ("first layers", verifier), lambda: Transformer.read(part, backend, own_encoder=False)
        )
        return ready


def _first_layers(verifier: Any) -> SimpleNamespace:
    """The verifier's encoder, and its decoder up to the exit. Raises ValueError: it has none."""
    count: int | None = getattr(verifier, "exit_layer", None)
    if count is None:
        raise UsageError(
            "",
            f"--path holds a {type(verifier).__name__}, which has no early exit",
            "train one with --arch early_exit_transformer --criterion early_exit_loss "
            "(--finetune-from-model starts from this checkpoint), or use --strategy bild with a "
            "small model",
        )
    decoder = copy.copy(verifier.decoder)
    decoder._modules = {**decoder._modules, "layers": decoder.layers[:count]}
    return SimpleNamespace(encoder=verifier.encoder, decoder=decoder)


class AutoregressiveSession(DraftSession):
    """The small model's cache for one batch. ``last``: most tokens of an output that the small
    model can draft."""

    def __init__(self, session: AnySession, options: DraftOptions, last: int, rows: int) -> None:
        self.session = session
        self.options = options
        self.last = last
        self.cached = [0] * rows  # slots of each row that may hold tokens of its output

    def propose(self, rows: Rows, budget: Budget = None, costs: Costs = None) -> Draft:
        # Accepted tokens are draft tokens in the cache, except for the last one, the bonus token.
        self.cached = [min(pair) for pair in zip(self.cached, rows.lengths_cpu)]
        steps = min(self.options.block_size, self.last - rows.shortest)
        if budget is not None:
            steps = min(steps, budget)
        return self._draft(rows, steps) if steps > 0 else Draft.empty(rows.lengths)

    def _draft(self, rows: Rows, steps: int) -> Draft:
        """Up to ``steps`` tokens of each row."""
        lengths, lengths_cpu = rows.lengths, rows.lengths_cpu
        # Tokens accepted since the last draft. A row with fewer of them runs some a second time, to
        # the same keys and values.
        at = rows.last_columns(max(h + 1 - c for h, c in zip(lengths_cpu, self.cached)))
        inputs = rows.tokens.gather(1, at)
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
        self.cached = [have + passes for have in lengths_cpu]
        log_probs = torch.stack(chances, 1)[:, :width] if chances else None
        own = torch.stack(scores, 1)[:, :width] if scores else None
        tokens = torch.stack(drafted, 1)[:, :width]
        return Draft(tokens, counts, log_probs, passes, scores=own)

    def step_logits(self, inputs: Tensor, layout: Layout) -> Tensor:
        """[B, V], of the last column; they hold until the next step."""
        if inputs.size(1) == 1:  # wider ones may repeat a position, and are no chain
            logits = self.session.replay(inputs, layout, type(self.session).logits)
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

    def keep(self, rows: Tensor, kept: list[int]) -> None:
        self.session.keep(rows, len(kept))
        self.cached = [self.cached[row] for row in kept]

    def close(self) -> None:
        self.session.close()
