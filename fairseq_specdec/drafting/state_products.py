"""The projections of a verifier's hidden states, in one product."""

from typing import Any, Tuple

from torch import Tensor

from fairseq_specdec.engine.eager.linear import Linear


class StateProducts:
    """The two projections of a decoder that reads states, as one product for inference.
    ``free_unpacked``: free their unpacked weights, as ``Linear.of``."""

    def __init__(self, decoder: Any, free_unpacked: bool = False) -> None:
        self.normalise = decoder.prefix_states.normalise
        self.product = Linear.of(
            decoder.prefix_states.project, decoder.mask_states.project, free_unpacked=free_unpacked
        )

    def __call__(self, states: Tensor, sizes: Tensor) -> Tuple[Tensor, Tensor]:
        """What ``embed_prefix`` and ``embed_masks`` take.

        Args:
            states: [B, W, n C] after the tokens accepted last.
            sizes: long [B], so many of them count.

        Returns:
            ([B, W, C], [B, 1, C]).
        """
        prefix, masks = self.product(self.normalise(states)).chunk(2, dim=-1)
        at = (sizes - 1)[:, None, None].expand(-1, 1, masks.size(2))
        return prefix, masks.gather(1, at)
