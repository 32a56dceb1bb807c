"""Criterions that fairseq registers: the drafter's loss."""

from .glancing_block_loss import GlancingBlockLoss, GlancingBlockLossConfig

__all__ = ["GlancingBlockLoss", "GlancingBlockLossConfig"]
