"""The drafter of the checkpoints that Xia et al. 2023 released: ``--arch block`` of their scripts.

It is the papers' drafter (:class:`SpecDrafter` with a bidirectional prefix) in another notation:
see :class:`LegacyBlockDecoder`. It decodes; new drafters are trained as ``spec_drafter``.
"""

from collections.abc import Mapping
from typing import Any

import torch
from fairseq.models import register_model
from torch import Tensor, nn

from fairseq_specdec.errors import UsageError

from ..checkpoints.content import get_setting
from .block_decoder import BlockDecoder, SoftSourceCopy, SourceState
from .drafter_config import SpecDrafterConfig, check_config, drafter_config, register_architectures
from .spec_drafter import BASE, DEEP_SHALLOW, SpecDrafter

# --arch of their training script, as stored in their checkpoints.
ARCHITECTURES = ("block", "block_base", "block_6e6d512")

# The same drafter in this project's checkpoints.
OWN_ARCHITECTURE = "legacy_drafter"

# Their name of the source copy's weight, and ours.
_COPIES = ("decoder.copy_attn.weight", "decoder.source_copy.query_proj.weight")


def to_ours(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights, by the authors' names or ours, under this project's: the same tensors, not copied;
    those of tables that the source copy shares with the encoder appear under both names."""
    ours = dict(weights)
    if _COPIES[0] in ours:
        ours[_COPIES[1]] = ours.pop(_COPIES[0])
    for table in ("embed_tokens.weight", "embed_positions.weight"):
        if _COPIES[1] in ours and f"encoder.{table}" in ours:
            ours[f"decoder.source_copy.{table}"] = ours[f"encoder.{table}"]
    return ours


class LegacyBlockDecoder(BlockDecoder):
    """A ``BlockDecoder`` that reads its input as the authors' drafters were trained to.

    - Position i holds token i (there is no start symbol); the output there predicts token i.
    - The mask is the dictionary's ``<unk>``, so a real ``<unk>`` in the prefix is a mask as well.
    - A mask starts from the source copy alone where the drafter has one, from the embedding of
      ``<unk>`` where not.
    - Positions are added before every layer, not only before the first.
    - The block is always k masks, also after the length limit.
    """

    start_symbol = False
    whole_blocks = True
    positions_in_every_layer = True

    def __init__(
        self,
        cfg: Any,
        dictionary: Any,
        embed_tokens: nn.Embedding,
        source_copy: SoftSourceCopy | None = None,
    ):
        super().__init__(cfg, dictionary, embed_tokens, source_copy)
        self.mask = dictionary.unk()
        del self.mask_embedding

    def embed_block(
        self,
        tokens: Tensor,
        token_positions: Tensor,
        mask_positions: Tensor,
        source_state: SourceState | None,
        read: Tensor | None = None,
        last: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        placed = self.position_table(token_positions)
        x = self._known(tokens, token_positions, source_state)
        x = torch.cat([x, self._masks(mask_positions, source_state)], 1)
        if placed is None or len(self.layers) == 1:
            return x, None
        return x, torch.cat([placed, self.position_table(mask_positions)], 1)

    def _known(self, tokens: Tensor, positions: Tensor, source_state: SourceState | None) -> Tensor:
        """[B, T, C] before the first layer, of tokens at positions (both long [B, T])."""
        placed = self.position_table(positions)
        x = self.embed_tokens(tokens)
        x = x if placed is None else x + placed
        unknown = (tokens == self.mask).unsqueeze(2)
        return torch.where(unknown, self._masks(positions, source_state), x)

    def start_source(self, src_tokens: Tensor, positions: int = 0) -> SourceState | None:
        """[B, positions, C], what a mask at each position starts from, once and for all."""
        if self.source_copy is None:
            return None
        rows = torch.arange(positions, device=src_tokens.device).unsqueeze(0)
        placed = self.position_table(rows)
        state = self.source_copy.start(src_tokens)
        copied = self.source_copy(placed.expand(src_tokens.size(0), -1, -1), state)
        return (copied + placed,)

    def _masks(self, positions: Tensor, source_state: SourceState | None) -> Tensor:
        """[B, K, C] before the first layer, for masks at ``positions`` (long [B, K])."""
        if source_state is None:
            x = self.embed_tokens(torch.full_like(positions, self.mask))
            placed = self.position_table(positions)
            return x if placed is None else x + placed
        index = positions.clamp(max=source_state[0].size(1) - 1).unsqueeze(2)
        return source_state[0].gather(1, index.expand(-1, -1, self.embed_dim))

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Not trained here."""
        raise UsageError(
            "--arch block",
            "drafters in the authors' layout decode only",
            "train with --arch spec_drafter_base --bidirectional-prefix --criterion "
            "glancing_block_loss",
        )


@register_model(OWN_ARCHITECTURE)
class LegacyDrafter(SpecDrafter):
    """A drafter from the authors' training script, or converted from one by specdec-convert."""

    decoder_class = LegacyBlockDecoder

    @classmethod
    def settings(cls, args: Any) -> SpecDrafterConfig:
        return legacy_config(args)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Give the weights of a checkpoint this project's names, in place (fairseq's hook)."""
        super().upgrade_state_dict_named(state_dict, name)
        ours = to_ours(state_dict)
        state_dict.clear()
        state_dict.update(ours)


def legacy_config(args: Any) -> SpecDrafterConfig:
    """Settings of a ``LegacyDrafter`` from those that its checkpoint holds, checked."""
    cfg = drafter_config(args)
    cfg.source_copy = bool(cfg.source_copy or get_setting(args, "src_embedding_copy"))
    cfg.bidirectional_prefix = True
    cfg.no_scale_embedding = True  # whatever the flag is, their drafter does not scale
    cfg.num_cuts = 1
    cfg.apply_bert_init = False
    check_config(cfg)
    for flag, given in (
        ("--layernorm-embedding", cfg.layernorm_embedding),
        ("--chain-width", cfg.chain_width > 0),
    ):
        if given:
            raise UsageError(flag, "no drafter in the authors' layout has it")
    return cfg


# 12+2 layers, 512 wide where a setting is missing; the authors' checkpoints have all.
register_architectures(
    OWN_ARCHITECTURE,
    SpecDrafterConfig,
    {name: {**BASE, **DEEP_SHALLOW} for name in (OWN_ARCHITECTURE, *ARCHITECTURES)},
)
