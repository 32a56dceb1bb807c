"""The first layers of the verifier's decoder as its small model."""

from types import SimpleNamespace
from typing import Any

from fairseq_specdec.engine.backend import TORCH, Backend
from fairseq_specdec.engine.exits import DecoderPart, exits_of
from fairseq_specdec.engine.transformer import TransformerWeights

from .autoregressive import ReadyAutoregressiveDrafter
from .base import Drafter, DraftOptions, ReadyDrafter


class EarlyExitDrafter(Drafter):
    """Drafts with the first n decoder layers of an ``EarlyExitTransformer`` (Kim et al. 2023, 4.4).

    The source is read once: the verifier's encoder output serves both. Drafts have a session of
    their own, with a cache of n layers that is rolled back by length. The verification computes all
    layers of drafted tokens, which fills the keys and values of the upper layers with actual ones
    (section 7.2.2).
    """

    def __init__(self, model: Any, options: DraftOptions) -> None:
        self.model = _first_layers(model)
        self.options = options
        self.block_size = options.block_size

    def prepare(self, verifier: Any, backend: Backend = TORCH) -> ReadyDrafter:
        def read() -> TransformerWeights:
            part = _first_layers(verifier)
            return TransformerWeights(part, "--path", backend=backend, own_encoder=False)

        weights = backend.once(("first layers", verifier), read)
        return ReadyAutoregressiveDrafter(weights, self.options, own_encoder=False)


def _first_layers(verifier: Any) -> SimpleNamespace:
    """The verifier's encoder, and its decoder up to the first exit."""
    layer, decoder = exits_of(verifier, "bild with a small model")[0], verifier.decoder
    part = DecoderPart(decoder, decoder.layers[:layer])
    return SimpleNamespace(encoder=verifier.encoder, decoder=part)
