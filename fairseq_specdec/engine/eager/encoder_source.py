"""What a fairseq encoder does before its Transformer layers: embed words, or subsample speech."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fairseq.data.data_utils import lengths_to_padding_mask
from fairseq.models.speech_to_text.s2t_transformer import S2TTransformerEncoder
from torch import Tensor

Embed = Callable[[dict[str, Any], bool | None], tuple[Tensor, Tensor | None]]
Subsample = Callable[[Tensor, Tensor], Tensor]


class EncoderSource(NamedTuple):
    """An encoder's layers, and what comes before them."""

    layers: Any  # fairseq's encoder layers, in a list of modules
    layer_norm: Any  # after the last one, or None
    # ``embed(net_input, padded)`` gives the first layer's input [B, S, C], and bool [B, S], True at
    # padding, or None where there is none. ``padded`` is whether there is some, where that is known
    embed: Embed
    pad: int | None = None  # of text: its padding token

    @classmethod
    def of(cls, encoder: Any, subsample: Subsample | None = None) -> EncoderSource:
        """Of an encoder that the engine runs (``parts.runs_encoder``).

        Args:
            encoder: of text or of speech.
            subsample: instead of the code of an encoder of speech: gives [B, S, C] of frames
                float [B, T, F] and their lengths long [B].
        """
        if isinstance(encoder, S2TTransformerEncoder):
            speech = _Speech(encoder, subsample)
            return cls(encoder.transformer_layers, encoder.layer_norm, speech)
        return cls(encoder.layers, encoder.layer_norm, _Text(encoder), encoder.padding_idx)

    def padding(self, tokens: Tensor, padded: bool | None) -> Tensor | None:
        """Of text: bool [B, S], True at padding, or None where there is none. ``padded`` as of
        ``embed``."""
        assert self.pad is not None
        return _padding(tokens, self.pad, padded)

    @staticmethod
    def output(x: Tensor, padding: Tensor | None) -> dict[str, Any]:
        """fairseq's encoder output, as far as decoding reads it, of [B, S, C]."""
        masks = [] if padding is None else [padding]
        return {"encoder_out": [x.transpose(0, 1)], "encoder_padding_mask": masks}


def _padding(tokens: Tensor, pad: int, padded: bool | None) -> Tensor | None:
    padding = tokens.eq(pad).contiguous()
    return padding if (bool(padding.any()) if padded is None else padded) else None


class _Text:
    """Words and their positions; zeros at padding, as fairseq has it."""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder

    def __call__(
        self, net_input: dict[str, Any], padded: bool | None
    ) -> tuple[Tensor, Tensor | None]:
        tokens: Tensor = net_input["src_tokens"]
        x, _ = self.encoder.forward_embedding(tokens)
        padding = _padding(tokens, self.encoder.padding_idx, padded)
        if padding is not None:
            x = x.masked_fill(padding.unsqueeze(2), 0.0)
        return x, padding


class _Speech:
    """Subsampled frames and their positions (Wang et al. 2020, fairseq S2T).

    Frames at the end of a sentence see the padding after it, through the second convolution: that
    is stock's result for the batch, and not that of the sentence alone.
    """

    def __init__(self, encoder: Any, subsample: Subsample | None) -> None:
        self.encoder = encoder
        self.subsample = subsample or self._stocks

    def _stocks(self, frames: Tensor, lengths: Tensor) -> Tensor:
        x: Tensor = self.encoder.subsample(frames, lengths)[0]
        return x.transpose(0, 1)

    def __call__(
        self, net_input: dict[str, Any], padded: bool | None
    ) -> tuple[Tensor, Tensor | None]:
        lengths: Tensor = net_input["src_lengths"]
        x = self.encoder.embed_scale * self.subsample(net_input["src_tokens"], lengths)
        left = self.encoder.subsample.get_out_seq_lens_tensor(lengths)
        padding = lengths_to_padding_mask(left)
        x = x + self.encoder.embed_positions(padding)
        # Another model of an ensemble may subsample to another length: what was seen there is moot.
        return x, padding if bool(padding.any()) else None
