"""Drafters: who proposes the next tokens."""

from .autoregressive import AutoregressiveDrafter
from .base import Draft, Drafter, NoDrafter
from .blockwise_heads import BlockwiseHeadsDrafter
from .early_exit import EarlyExitDrafter
from .input_copy import InputCopyDrafter
from .nar_block import NarBlockDrafter

__all__ = [
    "AutoregressiveDrafter",
    "BlockwiseHeadsDrafter",
    "Draft",
    "Drafter",
    "EarlyExitDrafter",
    "InputCopyDrafter",
    "NarBlockDrafter",
    "NoDrafter",
]
