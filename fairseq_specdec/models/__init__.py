"""Models that fairseq registers: drafters, and verifiers that draft for themselves."""

from .attached_drafter import AttachedDrafter
from .block_decoder import BlockDecoder
from .blockwise_transformer import BlockwiseConfig, BlockwiseTransformer
from .drafter_config import SpecDrafterConfig
from .early_exit_transformer import EarlyExitTransformer
from .legacy_drafter import LegacyDrafter
from .marian_transformer import MarianTransformer
from .spec_drafter import SpecDrafter

__all__ = [
    "AttachedDrafter",
    "BlockDecoder",
    "BlockwiseConfig",
    "BlockwiseTransformer",
    "EarlyExitTransformer",
    "LegacyDrafter",
    "MarianTransformer",
    "SpecDrafterConfig",
    "SpecDrafter",
]
