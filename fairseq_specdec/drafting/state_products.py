"""The projections of a verifier's hidden states, in one product."""

from typing import Any

from torch import Tensor

from fairseq_specdec.engine.eager.linear import Linear


def state_projections(decoder: Any) -> tuple[Any, ...]:
    """The linear layers of a decoder that reads states: for the prefix and for masks; for masks
    alone without layers."""
    both = decoder.prefix_states, decoder.mask_states
    return tuple(each.project for each in both if each is not None)


class StateProducts:
    """The projections of a decoder that reads states, as one product for inference."""

    def __init__(self, decoder: Any) -> None:
        self.normalise = decoder.mask_states.normalise
        self.of_prefix = decoder.prefix_states is not None
        self.width = decoder.embed_dim
        self.product = Linear.of(*state_projections(decoder))

    def __call__(self, states: Tensor) -> tuple[Tensor | None, Tensor]:
        """What ``embed_prefix`` and ``embed_masks`` take.

        Args:
            states: [B, W, n C], those that predicted the last W tokens, W >= 1.

        Returns:
            ([B, W, C], [B, 1, C]); (None, [B, k, C]) without layers.
        """
        if not self.of_prefix:
            last = self.product(self.normalise(states[:, -1:]))
            return None, last.view(len(states), -1, self.width)
        prefix, masks = self.product(self.normalise(states)).chunk(2, dim=-1)
        return prefix, masks[:, -1:]


def states_at(states: Tensor, columns: Tensor) -> Tensor:
    """[B, W, n C], rows of states [B, T, n C] at columns long [B, W]."""
    return states.gather(1, columns.unsqueeze(2).expand(-1, -1, states.size(2)))
