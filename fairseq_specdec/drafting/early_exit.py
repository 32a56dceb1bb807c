"""The first layers of the verifier's decoder as its small model."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

from fairseq_specdec.engine.backend import TORCH, Backend
from fairseq_specdec.engine.transformer import Transformer
from fairseq_specdec.errors import UsageError

from .autoregressive import AutoregressiveDrafter
from .base import DraftOptions


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
