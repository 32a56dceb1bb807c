"""Drafters: who proposes the next tokens."""

from .autoregressive import AutoregressiveDrafter, EarlyExitDrafter
from .base import Drafter, DraftOptions, DraftSession, NoDrafter, Source
from .blockwise_heads import BlockwiseHeadsDrafter
from .copying import InputCopyDrafter, LookupDrafter
from .nar_block import NarBlockDrafter

__all__ = [
    "AutoregressiveDrafter",
    "BlockwiseHeadsDrafter",
    "DraftOptions",
    "DraftSession",
    "Drafter",
    "EarlyExitDrafter",
    "InputCopyDrafter",
    "LookupDrafter",
    "NarBlockDrafter",
    "NoDrafter",
    "Source",
]
