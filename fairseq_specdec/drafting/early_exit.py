"""The first layers of the verifier's decoder as its small model."""

from types import SimpleNamespace
from typing import Any

from fairseq_specdec.engine.backend import TORCH, Backend
from fairseq_specdec.engine.transformer import TransformerWeights

from .autoregressive import ReadyAutoregressiveDrafter
from .base import Drafter, DraftOptions, ReadyDrafter


class FirstLayers:
    """A decoder cut off after its first layers, with the same embeddings, norm and projection."""

    def __init__(self, decoder: Any, count: int) -> None:
        self._decoder = decoder
        self.layers = list(decoder.layers)[:count]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)


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
        weights = TransformerWeights(
            _first_layers(verifier), "--path", backend=backend, own_encoder=False
        )
        return ReadyAutoregressiveDrafter(weights, self.options, own_encoder=False)


def _first_layers(verifier: Any) -> SimpleNamespace:
    """The verifier's encoder, and its decoder up to the exit."""
    layer = getattr(verifier, "exit_layer", None)
    if layer is None:
        raise ValueError(
            f"--path holds a {type(verifier).__name__}, which has no early exit; train one "
            "with --arch early_exit_transformer --criterion early_exit_loss "
            "(--finetune-from-model starts from this checkpoint), or use --strategy bild "
            "with a small model"
        )
    return SimpleNamespace(encoder=verifier.encoder, decoder=FirstLayers(verifier.decoder, layer))
