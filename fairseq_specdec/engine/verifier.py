"""The verifier: an ensemble of autoregressive Transformers that scores a whole draft in a pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .backend import TORCH, Backend
from .layout import Layout, first_slots
from .native.decoder import NativeDecoder, NativeDecoderSession
from .native.embedding import EmbeddingTables
from .scores import Scores
from .transformer import TransformerSession, TransformerWeights
from .work import Work


class Verifier:
    """The weights of an ensemble of fairseq Transformers; sessions of many threads share them.

    Args:
        models: the ensemble, from ``--path a.pt:b.pt``; their weights are read now.
        temperature: divides the logits, as ``--temperature``.
        read_layers: decoder layers of the first model, counted from 1, whose hidden states a
            session gives.
        backend: what runs their layers.
        runs: False where nothing of the models runs: their weights are not read.
    """

    def __init__(
        self,
        models: Sequence[Any],
        temperature: float = 1.0,
        read_layers: Sequence[int] = (),
        backend: Backend = TORCH,
        runs: bool = True,
    ) -> None:
        self.models = list(models)
        self.temperature = temperature
        self.weights = [
            TransformerWeights.of(
                model,
                f"--path, model {i + 1} of {len(self.models)}",
                backend,
                read_layers if i == 0 else (),
            )
            for i, model in enumerate(self.models if runs else ())
        ]

    @property
    def is_native(self) -> bool:
        """Whether the native library runs the layers of the (first) model."""
        return isinstance(self.weights[0].layers, NativeDecoder)

    def work(self) -> list[Work] | None:
        """What a pass over one token computes; None where it is not known."""
        works = [weights.work() for weights in self.weights]
        known = [work for work in works if work is not None]
        return [each for work in known for each in work] if len(known) == len(works) else None

    def native_form(self) -> EmbeddingTables | None:
        """The embeddings of one model that the native library runs as a whole; None for others."""
        weights = self.weights[0]
        layers = weights.layers
        if len(self.weights) > 1 or not isinstance(layers, NativeDecoder) or not layers.plain:
            return None
        return EmbeddingTables.find(weights.decoder)

    def encode(self, net_input: dict[str, Any]) -> list[Any]:
        """One encoder output per model, for ``open``."""
        outputs: list[Any] = []
        for weights in self.weights:
            padded = len(outputs[0]["encoder_padding_mask"]) > 0 if outputs else None
            outputs.append(weights.encode(net_input, padded))
        return outputs

    def open(self, encoder_outs: list[Any], max_len: int, widest: int) -> VerifierSession:
        """Begin a batch.

        Args:
            encoder_outs: from ``encode``.
            max_len: most target tokens before </s>.
            widest: widest block expected; only sizes the cache.
        """
        capacity = first_slots(max_len + 1) + widest + 1
        sessions = [
            weights.open(out, max_len, capacity) for weights, out in zip(self.weights, encoder_outs)
        ]
        return VerifierSession(sessions, self.temperature)


class VerifierSession:
    """One batch: the caches of the ensemble.

    Attributes:
        left_early: tokens that left before the last layer; 0 where none may.
        layers_run: decoder layers that all tokens took; 0 where none may leave.
    """

    left_early = 0
    layers_run = 0

    def __init__(self, sessions: list[TransformerSession], temperature: float) -> None:
        self.sessions = sessions
        self.temperature = temperature

    def native_layers(self) -> NativeDecoderSession:
        """Of the (first) model, for a verifier with a native form."""
        layers = self.sessions[0].layers
        assert isinstance(layers, NativeDecoderSession)
        return layers

    def score(self, tokens: Tensor, layout: Layout) -> Scores:
        """What may follow every token of a block.

        Args:
            tokens: long [B, W], the last accepted token, then the draft.
            layout: where they stand.

        Returns:
            Scores of W entries; entry w is the distribution of what follows token w.
        """
        alone = len(self.sessions) == 1
        logits = []
        for session in self.sessions:
            scored = session.run_graph(tokens, layout, self._finish if alone else self._scaled)
            if scored is None:
                scored = self._scaled(session, session.run(tokens, layout))
            elif alone:
                return Scores(scored, normalised=scored.is_cuda)
            logits.append(scored)
        return Scores.of_ensemble(logits)

    def padded(self, width: int, upto: int) -> tuple[int, int]:
        """As ``TransformerSession.padded``."""
        return self.sessions[0].padded(width, upto)

    def _scaled(self, session: TransformerSession, features: Tensor) -> Tensor:
        """[.., V], the logits of features [.., C'], or the features of an adaptive softmax, divided
        by the temperature: as fairseq does."""
        if self.temperature == 1.0:
            return session.logits(features)
        if getattr(session.weights.decoder, "adaptive_softmax", None) is not None:
            return session.logits(features / self.temperature)
        return session.logits(features) / self.temperature

    def _finish(self, session: TransformerSession, features: Tensor) -> Tensor:
        """What the scores of one model keep: on a GPU log-probabilities, as in ``of_ensemble``."""
        scaled = self._scaled(session, features)
        return F.log_softmax(scaled, dim=-1, dtype=torch.float32) if scaled.is_cuda else scaled

    def hidden_states(self) -> Tensor:
        """[B, W, n C], of the layers to read of the first model, at the block last scored."""
        states = self.sessions[0].layers.hidden_states
        assert states is not None, "no block scored, or no layers to read"
        return states

    def commit(self, lengths: Tensor, lengths_cpu: list[int]) -> None:
        """Keep so many slots of each row; the rest of the block is rolled back."""
        for session in self.sessions:
            session.commit(lengths, lengths_cpu)

    def select(self, rows: Tensor, rows_cpu: list[int]) -> None:
        """Keep only these rows (ascending row numbers; on the device and as Python ints)."""
        for session in self.sessions:
            session.select(rows, rows_cpu)

    def close(self) -> None:
        """End the batch; other batches may use its buffers."""
        for session in self.sessions:
            session.close()
