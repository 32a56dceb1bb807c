"""fairseq Transformers whose weights were read, and the verifier: an ensemble of them that scores a
whole draft in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .backend import TORCH, AnyDecoder, AnyEncoder, AnySession, Backend
from .native.decoder import EmbeddingTables, NativeDecoder
from .scores import Scores
from .session import Embedding
from .state import Layout, first_slots
from .torch_graphs import Pass, Recordings, StaticSession


class Transformer(NamedTuple):
    """An encoder, and a decoder with its embeddings; sessions share it."""

    encode: AnyEncoder | None  # None where the decoder reads another encoder's output
    decoder: AnyDecoder
    embedding: Embedding

    @classmethod
    def read(
        cls, model: Any, backend: Backend, read_layers: Sequence[int] = (), own_encoder: bool = True
    ) -> Transformer:
        """Read a model's weights, unless the backend has read them.

        Args:
            model: fairseq ``TransformerModel`` or any module with its attributes.
            backend: runs it.
            read_layers: decoder layers, counted from 1, whose hidden states a session keeps.
            own_encoder: read the encoder too.
        """
        own = model.decoder
        decoder = backend.decoder(own, read_layers, model.encoder)
        encode = backend.encoder(model.encoder) if own_encoder else None
        embedding = backend.once(("embedding", own), lambda: Embedding(own, backend.linear))
        return cls(encode, decoder, embedding)

    def open(self, encoder_out: dict[str, Any], max_len: int, widest: int) -> AnySession:
        """Begin a batch.

        Args:
            encoder_out: as fairseq's encoders give it.
            max_len: largest position that counts; tokens after it get its embedding.
            widest: widest block expected; only sizes the cache.
        """
        positions = self.embedding.positions(max_len + 1, encoder_out["encoder_out"][0])
        capacity = first_slots(max_len + 1) + widest + 1
        return self.decoder.open(encoder_out, capacity, self.embedding, positions)


class Verifier:
    """The weights of an ensemble of fairseq Transformers; sessions of many threads share them.

    Args:
        models: the ensemble, from ``--path a.pt:b.pt``; their weights are read now.
        temperature: divides the logits, as ``--temperature``.
        read_layers: decoder layers of the first model, counted from 1, whose hidden states a
            session keeps.
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
            Transformer.read(model, backend, read_layers if i == 0 else ())
            for i, model in enumerate(self.models if runs else ())
        ]

    @property
    def is_native(self) -> bool:
        """Whether the native library runs the layers of the (first) model."""
        return isinstance(self.weights[0].decoder, NativeDecoder)

    @property
    def nbytes(self) -> int:
        """Bytes of the decoders' weights that the native library packed."""
        decoders = (each.decoder for each in self.weights)
        return sum(each.stack.nbytes for each in decoders if isinstance(each, NativeDecoder))

    def native_form(self) -> EmbeddingTables | None:
        """The embeddings of one model that the native library runs as a whole; None for others."""
        decoder = self.weights[0].decoder
        if len(self.weights) > 1 or not isinstance(decoder, NativeDecoder) or not decoder.plain:
            return None
        return EmbeddingTables.find(self.models[0].decoder)

    def encode(self, net_input: dict[str, Any]) -> list[Any]:
        """One encoder output per model, for ``open``."""
        outputs: list[Any] = []
        for weights in self.weights:
            padded = len(outputs[0]["encoder_padding_mask"]) > 0 if outputs else None
            assert weights.encode is not None
            outputs.append(weights.encode(net_input, padded))
        return outputs

    def open(self, encoder_outs: list[Any], max_len: int, widest: int) -> Ensemble:
        """Begin a batch; arguments as in ``Transformer.open``, of each model."""
        pairs = zip(self.weights, encoder_outs)
        sessions = [weights.open(out, max_len, widest) for weights, out in pairs]
        return Ensemble(sessions, self.temperature)


class Ensemble:
    """The verifier's sessions for one batch, one of each model."""

    def __init__(self, sessions: list[AnySession], temperature: float) -> None:
        self.sessions = sessions
        self.temperature = temperature

    def score(self, tokens: Tensor, layout: Layout) -> Scores:
        """What may follow every token of a block.

        Args:
            tokens: long [B, W], the last accepted token, then the draft.
            layout: their positions and slots.

        Returns:
            Scores of W entries; entry w is the distribution of what follows token w.
        """
        alone = len(self.sessions) == 1
        logits = []
        for session in self.sessions:
            scored = session.replay(tokens, layout, self._finish if alone else self._scaled)
            if scored is None:
                scored = self._scaled(session, session.run(tokens, layout))
            elif alone:
                return Scores(scored, normalised=True)
            logits.append(scored)
        return Scores.of_ensemble(logits)

    def recordable(
        self, columns: int, upto: int
    ) -> tuple[Recordings, tuple[int, ...], Pass] | None:
        """Where passes of one model are recorded, and what ``StaticSession.recordable`` gives, with
        log-probabilities as scores; None for several models, or without CUDA graphs."""
        session, *others = self.sessions
        if others or not isinstance(session, StaticSession):
            return None
        return session.cache.recordings, *session.recordable(columns, upto, self._finish)

    def _scaled(self, session: AnySession, features: Tensor) -> Tensor:
        """[.., V], the logits of features [.., C'], divided by the temperature: as fairseq does."""
        logits = session.logits(features)
        return logits if self.temperature == 1.0 else logits / self.temperature

    def _finish(self, session: AnySession, features: Tensor) -> Tensor:
        """Log-probabilities, as ``Scores`` keeps them."""
        return F.log_softmax(self._scaled(session, features), dim=-1, dtype=torch.float32)

    def keep(self, rows: Tensor, count: int) -> None:
        """Keep only these rows (``count`` ascending numbers, long [count] on the device)."""
        for session in self.sessions:
            session.keep(rows, count)

    def close(self) -> None:
        """End the batch; other batches may use its buffers."""
        for session in self.sessions:
            session.close()
