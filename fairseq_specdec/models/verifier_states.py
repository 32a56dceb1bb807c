"""A verifier's encoder output and decoder states, as input of a drafter."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch
from fairseq.models import FairseqEncoder
from torch import Tensor, nn


def layers_at_thirds(layers: int) -> List[int]:
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
        self._verifier: List[Any] = []  # in a list, nn.Module does not register it

    def attach(self, verifier: Any) -> None:
        """Freeze this verifier and read it."""
        verifier.requires_grad_(False)
        self._verifier = [verifier.eval()]

    @torch.no_grad()
    def read(
        self, src_tokens: Tensor, src_lengths: Tensor, prev_output_tokens: Tensor, like: Tensor
    ) -> Tuple[Any, Tensor, Tensor]:
        """Run the verifier over known sentences.

        Args:
            src_tokens: long [B, S].
            src_lengths: long [B].
            prev_output_tokens: long [B, T].
            like: a tensor whose device and dtype to use.

        Returns:
            The encoder's output as fairseq gives it; [B, T, layers * C], whose entry t holds the
            states that predict the token after position t; and the last layer's alone, [B, T, C].

        Raises:
            ValueError: no verifier attached.
        """
        if not self._verifier:
            raise ValueError(
                "--attach-to: an attached drafter reads a verifier's states in training; give "
                "the verifier's checkpoint"
            )
        verifier = self._verifier[0]
        if next(verifier.parameters()).dtype != like.dtype:
            verifier.to(like)
        verifier.to(like.device)
        encoder_out = verifier.encoder(src_tokens, src_lengths=src_lengths)
        decoder = verifier.decoder
        final, extra = decoder.extract_features_scriptable(prev_output_tokens, encoder_out)
        states = [
            final if layer == len(decoder.layers) else extra["inner_states"][layer].transpose(0, 1)
            for layer in self.read_layers
        ]
        return encoder_out, torch.cat(states, -1), final

    @torch.no_grad()
    def predict(self, final: Tensor) -> Tensor:
        """The verifier's logits [N, V] from its last layer's states [N, C]."""
        return self._verifier[0].decoder.output_layer(final)

    def forward(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, **_: Any) -> Any:
        """Not to be called alone: :meth:`read` needs the target too."""
        raise NotImplementedError("an attached drafter has no encoder of its own")
