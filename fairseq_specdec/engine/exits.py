"""A verifier whose tokens may leave before its last layer: CALM (Schuster et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_specdec.errors import UsageError

from .backend import TORCH, AnyDecoder, AnyDecoderSession, Backend
from .eager.parts import check_decoder
from .eager.stored_module import restore
from .layout import Layout, causal_horizon, first_slots
from .scores import Scores
from .transformer import TransformerWeights
from .verifier import Verifier, VerifierSession
from .work import Work

CONFIDENCES = ("softmax", "saturation")


@dataclass(frozen=True)
class ExitOptions:
    """When a token leaves.

    Attributes:
        threshold: lambda, the least confidence with which it does; infinite where none does.
        confidence: ``softmax``, how far the likeliest token's probability is above the second's; or
            ``saturation``, the cosine similarity of the states after the exit's layer and before
            it (Schuster et al. 2022: local confidence measures).
        decay: the temperature of their equation 5, by which the threshold falls along the output;
            None for one threshold.
    """

    threshold: float
    confidence: str = "softmax"
    decay: float | None = None

    def threshold_at(self, step: int, longest: int) -> float:
        """For token number ``step`` of an output, from 0. ``longest``: N, most tokens of it."""
        if self.decay is None:
            return self.threshold
        falling = math.exp(-self.decay * step / longest) if longest else 1.0
        return min(1.0, 0.9 * self.threshold + 0.1 * falling)


class DecoderPart:
    """Some layers of a decoder, with its embeddings, norm and projections. ``instead``: other
    attributes than the decoder's."""

    def __init__(self, decoder: Any, layers: Sequence[Any], **instead: Any) -> None:
        self._decoder = decoder
        self.layers = list(layers)
        self.__dict__.update(instead)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)


def exits_of(model: Any, strategy: str) -> tuple[int, ...]:
    """The decoder layers, counted from 1, after which a model of ``--path`` predicts too. Raises
    ValueError: there are none. ``strategy``: to use with another model."""
    exits: tuple[int, ...] | None = getattr(model, "exits", None)
    if exits is None:
        raise UsageError(
            "",
            f"--path holds a {type(model).__name__}, which has no early exit",
            "train one with --arch early_exit_transformer --criterion early_exit_loss "
            "(--finetune-from-model starts from this checkpoint), or use --strategy "
            f"{strategy}",
        )
    return exits


class ExitVerifier(Verifier):
    """Runs the layers up to the first exit together, and each later one alone.

    Args:
        model: an ``EarlyExitTransformer``.
        temperature, backend: as in ``Verifier``.
        options: when a token leaves.
    """

    def __init__(
        self, model: Any, options: ExitOptions, temperature: float = 1.0, backend: Backend = TORCH
    ) -> None:
        super().__init__([model], temperature, backend=backend, runs=False)
        self.options = options
        self.exits = exits_of(model, "greedy")
        decoder, first = model.decoder, self.exits[0]
        check_decoder(decoder, "--path")
        bare = dict.fromkeys(("layer_norm", "project_out_dim", "output_projection"))
        lower = DecoderPart(decoder, decoder.layers[:first], **bare)
        saturates = options.confidence == "saturation"
        read = (first - 1,) if saturates and first > 1 else ()
        both = SimpleNamespace(encoder=model.encoder, decoder=lower)
        weights = backend.once(
            ("lower", model, *read), lambda: TransformerWeights(both, "--path", read, backend)
        )
        self.weights = [weights]

        def upper() -> list[AnyDecoder]:
            parts = (DecoderPart(decoder, [layer], **bare) for layer in decoder.layers[first:])
            return [backend.decoder(part, "--path") for part in parts]

        self.upper = backend.once(("upper", model), upper)
        narrow = decoder.project_out_dim
        # One head for all exits: norm, projection, and a decoder without layers for its vocabulary.
        self.norm = decoder.layer_norm
        self.project_out = narrow and backend.once(
            ("narrow", narrow), lambda: backend.linear(narrow.weight, narrow.bias)
        )
        like = decoder.layers[0].final_layer_norm.weight
        head = DecoderPart(decoder, (), layer_norm=None, project_out_dim=None, like=like)
        self.vocabulary: AnyDecoder = backend.once(
            ("vocabulary", decoder), lambda: backend.decoder(head, "--path", (), model.encoder)
        )
        restore(decoder)

    def work(self) -> list[Work] | None:
        return None  # it differs from token to token

    def native_form(self) -> None:
        return None

    def open(self, encoder_outs: list[Any], max_len: int, widest: int) -> ExitSession:
        return ExitSession(self, encoder_outs[0], max_len)


class ExitSession(VerifierSession):
    """One batch, whose rows have the same length: a token of each is scored at a time.

    A token that left has no states of its own in the upper layers. Their keys and values are made
    of the state with which it left (Schuster et al. 2022: state propagation), once a later token
    reaches the layer, for all that are missing there.

    Args:
        encoder_out: from ``encode``.
        max_len: most target tokens before </s>.
    """

    def __init__(self, verifier: ExitVerifier, encoder_out: dict[str, Any], max_len: int) -> None:
        capacity = first_slots(max_len + 1) + 1
        lower = verifier.weights[0].open(encoder_out, max_len, capacity)
        super().__init__([lower], verifier.temperature)
        masks, source = encoder_out["encoder_padding_mask"], encoder_out["encoder_out"][0]
        mask = masks[0] if len(masks) > 0 else None
        upper = [weights.open(source, mask, capacity) for weights in verifier.upper]
        self.parts: list[AnyDecoderSession] = [lower.layers, *upper]
        self.vocabulary: AnyDecoderSession = verifier.vocabulary.open(source, mask, 1)
        self.verifier, self.options = verifier, verifier.options
        self.max_len = max_len
        first = verifier.exits[0]
        self.exits = {layer - first for layer in verifier.exits}  # numbers of ``parts``
        self.first = first
        self.known = [0] * len(self.parts)  # slots whose keys and values are there
        self.left = source.new_empty(
            source.size(1), 0, source.size(2)
        )  # states of tokens, [B, T, C]

    def score(self, tokens: Tensor, layout: Layout) -> Scores:
        """What may follow a token of each row, long [B, 1], by its exit; as of
        ``VerifierSession``."""
        step, options = layout.upto - 1, self.options
        threshold = options.threshold_at(step, self.max_len)
        state = self.sessions[0].embed(tokens, layout)
        done = torch.zeros_like(tokens, dtype=torch.bool)
        staying = len(tokens)
        logits: Tensor | None = None
        for number, part in enumerate(self.parts):
            before, after = state, self._run(number, state, step)
            if number == 0 and part.hidden_states is not None:
                before = part.hidden_states
            state = torch.where(done.unsqueeze(2), state, after)
            self.layers_run += staying * (1 if number else self.first)
            logits = None
            if number not in self.exits or threshold == math.inf:
                continue
            if options.confidence == "softmax":
                logits = self._logits(state)
                best = logits.softmax(-1, dtype=torch.float32).topk(2).values
                confidence = best[..., 0] - best[..., 1]
            else:
                confidence = F.cosine_similarity(before.float(), state.float(), dim=-1)
            done = done | (confidence >= threshold)
            staying = int((~done).sum())  # the host waits here for the device
            if staying == 0:
                break
        self.left_early += len(tokens) - staying
        self.left = torch.cat([self.left, state], 1)
        return Scores(self._logits(state) if logits is None else logits)

    def _run(self, number: int, state: Tensor, step: int) -> Tensor:
        """[B, 1, C] after a part of the layers, which first gets the keys and values that it
        lacks. ``state``: [B, 1, C] before it."""
        part, first = self.parts[number], self.known[number]
        self.known[number] = step + 1
        block = torch.cat([self.left[:, first:step], state], 1)
        starts = torch.full((len(state),), first, device=state.device)
        slots = causal_horizon(starts, block.size(1))
        layout = Layout.at(slots, [step] * len(state))
        wanted = 1 if block.size(1) > 1 else None
        return part.run(block, layout, layout.mask(), wanted=wanted)

    def _logits(self, state: Tensor) -> Tensor:
        """[B, 1, V] of states [B, 1, C]."""
        norm, project_out = self.verifier.norm, self.verifier.project_out
        features = state if norm is None else norm(state)
        features = features if project_out is None else project_out(features)
        logits = self.vocabulary.logits(features)
        return logits if self.temperature == 1.0 else logits / self.temperature

    def commit(self, lengths: Tensor, lengths_cpu: list[int]) -> None:
        for part in self.parts:
            part.commit(lengths, lengths_cpu)

    def select(self, rows: Tensor, rows_cpu: list[int]) -> None:
        for part in self.parts:
            part.select(rows, rows_cpu)
        self.left = self.left.index_select(0, rows)

    def close(self) -> None:
        for part in (*self.parts, self.vocabulary):
            part.close()
