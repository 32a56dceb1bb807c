"""Drafters: who proposes the next tokens."""

from .base import Draft, Drafter, NoDrafter
from .input_copy import InputCopyDrafter
from .nar_block import NarBlockDrafter

__all__ = ["Draft", "Drafter", "InputCopyDrafter", "NarBlockDrafter", "NoDrafter"]
