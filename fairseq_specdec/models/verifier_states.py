"""A verifier's encoder output and decoder states, as input of a drafter."""

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.models import FairseqEncoder
from torch import Tensor, nn

from fairseq_specdec.errors import UsageError


def layers_at_thirds(layers: int) -> list[int]:
    """Decoder layers to read, counted from 1: a third of the way, two thirds, and the last."""
    return sorted({max(1, layers // 3), max(1, 2 * layers // 3), layers})


class StateProjection(nn.Module):
    """States of several decoder layers, side by side, to one vector of the drafter's width.

    Each layer's state is normalised first: the residual stream of a pre-norm model grows from
    layer to layer.

    Args:
        layers: how many states are concatenated.
        width: of one state.
        dim: of the result.
    """

    def __init__(self, layers: int, width: int, dim: int):
        super().__init__()
        self.layers = layers
        self.width = width
        # No bias: where there is no state (zeros), nothing is added.
        self.project = nn.Linear(layers * width, dim, bias=False)
        nn.init.normal_(self.project.weight, std=(layers * width) ** -0.5)

    def normalise(self, states: Tensor) -> Tensor:
        """Every layer's part of [.., layers * width] for itself."""
        parts = states.unflatten(-1, (self.layers, self.width))
        return nn.functional.layer_norm(parts, (self.width,)).flatten(-2)

    def forward(self, states: Tensor) -> Tensor:
        """[.., layers * width] to [.., dim]."""
        return self.project(self.normalise(states))


class VerifierReader(FairseqEncoder):
    """A drafter's encoder that has no weights of its own: it runs the verifier, without gradients.

    The verifier is no part of the drafter: it is neither saved with it nor trained, and in
    decoding the engine passes the states that the verification computed.

    Args:
        dictionary: the source dictionary.
        layers: decoder layers to read, counted from 1.
    """

    def __init__(self, dictionary: Any, layers: Sequence[int]):
        super().__init__(dictionary)
        self.read_layers = list(layers)
        self.attached_to: list[Any] = []  # in a list, nn.Module does not register it

    def attach(self, verifier: Any) -> None:
        """Freeze this verifier, fairseq's encoder-decoder model, and read it."""
        verifier.requires_grad_(False)
        self.attached_to = [verifier.eval()]

    @torch.no_grad()
    def read(
        self, src_tokens: Tensor, src_lengths: Tensor, prev_output_tokens: Tensor, like: Tensor
    ) -> tuple[Any, Tensor, Tensor]:
        """Run the verifier over known sentences.

        Args:
            src_tokens: long [B, S].
            src_lengths: long [B].
            prev_output_tokens: long [B, T].
            like: a tensor whose device and dtype to use.

        Returns:
            The encoder's output as fairseq gives it; [B, T, layers * C], whose entry t holds the
            states that predict the token after position t; and the last layer's alone, [B, T, C].
        """
        if not self.attached_to:
            raise UsageError(
                "--attach-to",
                "an attached drafter reads a verifier's states in training",
                "give the verifier's checkpoint",
            )
        verifier = self.attached_to[0]
        verifier.to(like.device, like.dtype)
        decoder = verifier.decoder
        encoder_out = verifier.encoder(src_tokens, src_lengths=src_lengths)
        final, extra = decoder.extract_features_scriptable(prev_output_tokens, encoder_out)
        states = [
            final if layer == len(decoder.layers) else extra["inner_states"][layer].transpose(0, 1)
            for layer in self.read_layers
        ]
        return encoder_out, torch.cat(states, -1), final

    @torch.no_grad()
    def predict(self, final: Tensor) -> Tensor:
        """The verifier's logits [N, V] from its last layer's states [N, C]."""
        return self.attached_to[0].decoder.output_layer(final)
