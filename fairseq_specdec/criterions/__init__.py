"""Criterions that fairseq registers: the losses of this project's models."""

from .blockwise_loss import BlockwiseLoss, BlockwiseLossConfig
from .early_exit_loss import EarlyExitLoss, EarlyExitLossConfig
from .glancing_block_loss import GlancingBlockLoss, GlancingBlockLossConfig

__all__ = [
    "BlockwiseLoss",
    "BlockwiseLossConfig",
    "EarlyExitLoss",
    "EarlyExitLossConfig",
    "GlancingBlockLoss",
    "GlancingBlockLossConfig",
]
