"""Models that fairseq registers: the block drafter."""

from . import spec_drafter
from .block_decoder import BlockDecoder
from .drafter_config import SpecDrafterConfig
from .spec_drafter import SpecDrafter

__all__ = ["BlockDecoder", "SpecDrafterConfig", "SpecDrafter", "spec_drafter"]
