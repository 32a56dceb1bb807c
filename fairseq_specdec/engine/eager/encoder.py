"""A fairseq Transformer encoder, with the decoder stack's products."""

import functools
from typing import Any

from torch import Tensor

from .attention import additive, attend
from .encoder_source import EncoderSource
from .linear import Linear
from .norm import Norm
from .parts import runs_encoder


class _Layer:
    """The weights of one encoder layer, as products to call."""

    def __init__(self, layer: Any, free_unpacked: bool) -> None:
        of = functools.partial(Linear.of, free_unpacked=free_unpacked)
        attention = layer.self_attn
        self.pre_norm = layer.normalize_before
        self.heads = attention.num_heads
        self.qkv = of(attention.q_proj, attention.k_proj, attention.v_proj)
        self.out = of(attention.out_proj)
        self.fc1 = of(layer.fc1)
        self.fc2 = of(layer.fc2)
        self.activation = layer.activation_fn
        self.self_norm = Norm(layer.self_attn_layer_norm)
        self.final_norm = Norm(layer.final_layer_norm)

    def run(self, x: Tensor, mask: Tensor | None) -> Tensor:
        residual = x
        if self.pre_norm:
            x = self.self_norm(x)
        query, key, value = self.qkv(x).unflatten(2, (3, self.heads, -1)).unbind(2)
        x = residual + self.out(attend(query, key.transpose(1, 2), value.transpose(1, 2), mask))
        if not self.pre_norm:
            x = self.self_norm(x)
        residual = x
        if self.pre_norm:
            x = self.final_norm(x)
        x = residual + self.fc2(self.fc1.activated(x, self.activation))
        return x if self.pre_norm else self.final_norm(x)


class EncoderWeights:
    """Encodes batches; nothing of it changes.

    Encoders with a part that is not run here are called as they are.

    Args:
        free_unpacked: free the encoder's weights that were packed, as ``Linear.of``.
    """

    def __init__(self, encoder: Any, free_unpacked: bool = False) -> None:
        self.encoder = encoder
        self.layers: list[_Layer] | None = None
        if runs_encoder(encoder):
            self.source = EncoderSource.of(encoder)
            self.layers = [_Layer(layer, free_unpacked) for layer in self.source.layers]

    def __call__(self, net_input: dict[str, Any], padded: bool | None = None) -> dict[str, Any]:
        """Encode.

        Args:
            net_input: fairseq's ``sample["net_input"]``.
            padded: whether there is padding; None to look, for which the host waits for a GPU.

        Returns:
            ``encoder_out``: list of one [S, B, C]; ``encoder_padding_mask``: list of one bool
            [B, S], True at padding, or empty where there is none; as fairseq's encoders give them.
        """
        if self.layers is None:
            out: dict[str, Any] = self.encoder.forward_torchscript(net_input)
            masks = out["encoder_padding_mask"]
            if padded is None and len(masks) > 0:
                padded = bool(masks[0].any())
            return out if padded else dict(out, encoder_padding_mask=[])
        return self.source.output(*self.states(net_input, padded))

    def states(
        self, net_input: dict[str, Any], padded: bool | None
    ) -> tuple[Tensor, Tensor | None]:
        """The last layer's [B, S, C], and bool [B, S], True at padding, or None where there is
        none. Arguments as for a call."""
        assert self.layers is not None
        x, padding = self.source.embed(net_input, padded)
        mask = None
        if padding is not None:
            mask = ~padding[:, None, None, :]
            if padding.is_cuda:
                mask = additive(mask, x)
        for layer in self.layers:
            x = layer.run(x, mask)
        if self.source.layer_norm is not None:
            x = self.source.layer_norm(x)
        return x, padding
