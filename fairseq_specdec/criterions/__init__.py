"""Criterions that fairseq registers: the losses of this project's models."""

from .blockwise_loss import BlockwiseLoss, BlockwiseLossConfig
from .early_exit_loss import EarlyExitLoss, EarlyExitLossConfig
from .glancing_block_loss import GlancingBlockLoss, GlancingBlockLossConfig
from .glat_loss import GlatLoss, GlatLossConfig

__all__ = [
    "BlockwiseLoss",
    "BlockwiseLossConfig",
    "EarlyExitLoss",
    "EarlyExitLossConfig",
    "GlancingBlockLoss",
    "GlancingBlockLossConfig",
    "GlatLoss",
    "GlatLossConfig",
]
