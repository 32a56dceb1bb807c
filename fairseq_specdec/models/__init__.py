"""Models that fairseq registers: the block drafter."""

from . import spec_drafter
from .block_decoder import BlockDecoder
from .spec_drafter import SpecDrafterModel, SpecDrafterConfig

__all__ = ["BlockDecoder", "SpecDrafterModel", "SpecDrafterConfig", "spec_drafter"]
