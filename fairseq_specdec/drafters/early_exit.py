"""The first layers of the verifier's decoder as its small model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Dict

from .autoregressive import AutoregressiveDrafter


class FirstLayers:
    """A decoder cut off behind its first layers, with the same embeddings, norm and projection.

    Args:
        decoder: fairseq ``TransformerDecoder``; nothing of it is copied.
        count: layers to keep.
    """

    def __init__(self, decoder: Any, count: int) -> None:
        self._decoder = decoder
        self.layers = list(decoder.layers)[:count]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)


class EarlyExitDrafter(AutoregressiveDrafter):
    """Drafts with the first n decoder layers of an ``EarlyExitTransformer`` (paper 003, 4.4).

    The source is read once: the verifier's encoder output serves both. The lower layers' keys and
    values of a drafted token are those that the verification computes, kept in a cache of n layers
    and rolled back by length; the upper layers see a drafted token first when it is verified, which
    fills their keys and values from what is below them (section 7.2.2).

    Args:
        model: an ``EarlyExitTransformer``, the (first) verifier.
        window, pad, eos, stopwatch, and the rest: as for ``AutoregressiveDrafter``, but for
            ``dtype``, which is the verifier's.

    Raises:
        ValueError: the model has no early exit.
    """

    def __init__(
        self, model: Any, window: int, pad: int, eos: int, stopwatch: Any, **options: Any
    ) -> None:
        super().__init__(None, window, pad, eos, stopwatch, **options)
        self.attach(model)

    def attach(self, verifier: Any) -> None:
        """Draft with this model's layers from the next batch on.

        Raises:
            ValueError: the model has no early exit.
        """
        layer = getattr(verifier, "exit_layer", None)
        if layer is None:
            raise ValueError(
                f"--path holds a {type(verifier).__name__}, which has no early exit; train one "
                "with --arch early_exit_transformer --criterion early_exit_loss "
                "(--finetune-from-model starts from this checkpoint), or use --strategy bild "
                "with a small model"
            )
        decoder = FirstLayers(verifier.decoder, layer)
        self.model = SimpleNamespace(encoder=verifier.encoder, decoder=decoder)
        self.refresh()

    def encode(self, net_input: Dict[str, Any], encoder_out: Dict[str, Any]) -> Dict[str, Any]:
        return encoder_out
