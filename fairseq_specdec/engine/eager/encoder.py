"""A fairseq Transformer encoder of text or of speech, with torch operators."""

from __future__ import annotations

from typing import Any

from fairseq.data.data_utils import lengths_to_padding_mask
from fairseq.models.speech_to_text.s2t_transformer import S2TTransformerEncoder
from torch import Tensor

from .linear import Layer, additive, attend


class Encoder:
    """Encodes batches; nothing of it changes. A subclass runs the layers.

    Attributes:
        layers: fairseq's encoder layers, in a list of modules.
        layer_norm: after the last one, or None.
        pad: of text, its padding token; None of speech.

    Args:
        encoder: of text or of speech, of a class in ``support.ENCODERS``.
    """

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder
        speech = isinstance(encoder, S2TTransformerEncoder)
        self.layers = encoder.transformer_layers if speech else encoder.layers
        self.layer_norm = encoder.layer_norm
        self.pad: int | None = None if speech else encoder.padding_idx

    def __call__(self, net_input: dict[str, Any], padded: bool | None = None) -> dict[str, Any]:
        """Encode.

        Args:
            net_input: fairseq's ``sample["net_input"]``.
            padded: whether there is padding; None to look, for which the host waits for a GPU.

        Returns:
            ``encoder_out``: list of one [S, B, C]; ``encoder_padding_mask``: list of one bool
            [B, S], True at padding, or empty where there is none; as fairseq's encoders give them.
        """
        x, padding = self.states(net_input, padded)
        masks = [] if padding is None else [padding]
        return {"encoder_out": [x.transpose(0, 1)], "encoder_padding_mask": masks}

    def states(
        self, net_input: dict[str, Any], padded: bool | None
    ) -> tuple[Tensor, Tensor | None]:
        """The last layer's [B, S, C], and the padding as ``embed`` gives it. Arguments as for a
        call."""
        x, padding = self.embed(net_input, padded)
        return self.run(x, padding), padding

    def run(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """The last layer's [B, S, C] of the first one's input. ``padding``: see ``embed``."""
        raise NotImplementedError

    def embed(self, net_input: dict[str, Any], padded: bool | None) -> tuple[Tensor, Tensor | None]:
        """The first layer's input [B, S, C], and bool [B, S], True at padding, or None where there
        is none. ``padded``: whether there is some, where that is known.

        Text is zero at padding, as fairseq has it. Frames of speech at the end of a sentence see
        the padding after it, through the second convolution (Wang et al. 2020, fairseq S2T): that
        is stock's result for the batch, and not that of the sentence alone.
        """
        encoder, tokens = self.encoder, net_input["src_tokens"]
        if self.pad is None:
            x, lengths = encoder.subsample(tokens, net_input["src_lengths"])
            x = encoder.embed_scale * x.transpose(0, 1)
            padding = lengths_to_padding_mask(lengths)
            x = x + encoder.embed_positions(padding)
            # Another model of an ensemble may subsample to another length: ``padded`` is moot.
            return x, padding if bool(padding.any()) else None
        x, _ = encoder.forward_embedding(tokens)
        hidden = self.padding(tokens, padded)
        return x if hidden is None else x.masked_fill(hidden.unsqueeze(2), 0.0), hidden

    def padding(self, tokens: Tensor, padded: bool | None) -> Tensor | None:
        """Of text, as ``embed`` gives it."""
        padding = tokens.eq(self.pad).contiguous()  # type: ignore[arg-type]
        return padding if (bool(padding.any()) if padded is None else padded) else None


class EncoderWeights(Encoder):
    """An encoder that torch runs. ``packs``: as for ``Linear``."""

    def __init__(self, encoder: Any, packs: bool = True) -> None:
        super().__init__(encoder)
        self.weights = [Layer(layer, packs) for layer in self.layers]

    def run(self, x: Tensor, padding: Tensor | None) -> Tensor:
        mask = None if padding is None else ~padding[:, None, None, :]
        if mask is not None and mask.is_cuda:
            mask = additive(mask, x)
        for layer in self.weights:
            x = layer.feed_forward(_attended(layer, x, mask))
        return x if self.layer_norm is None else self.layer_norm(x)


def _attended(layer: Layer, x: Tensor, mask: Tensor | None) -> Tensor:
    """The first sublayer, with its residual and norm."""
    residual = x
    if layer.pre_norm:
        x = layer.self_norm(x)
    query, key, value = layer.qkv(x).unflatten(2, (3, layer.heads, -1)).unbind(2)
    x = residual + layer.out(attend(query, key.transpose(1, 2), value.transpose(1, 2), mask))
    return x if layer.pre_norm else layer.self_norm(x)


class StockEncoder:
    """An encoder with a part that is not run here, called as it is."""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder

    def __call__(self, net_input: dict[str, Any], padded: bool | None = None) -> dict[str, Any]:
        """As of ``Encoder``."""
        out: dict[str, Any] = self.encoder.forward_torchscript(net_input)
        masks = out["encoder_padding_mask"]
        if padded is None and len(masks) > 0:
            padded = bool(masks[0].any())
        return out if padded else dict(out, encoder_padding_mask=[])
