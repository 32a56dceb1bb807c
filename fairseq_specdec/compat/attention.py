"""Attention in bf16 on the CPU."""

import logging
from typing import Any

import torch

from .patch import wrap_once

logger = logging.getLogger(__name__)


def math_attention_for_bf16_on_cpu() -> None:
    """Train in bf16 on the CPU with torch's plain attention.

    Fault: the backward of torch's flash attention on the CPU is about five times slower in bf16
    than plain matrix products (208 of 600 ms a step, 2 cores, torch 2.13). Versions: torch >= 2.0.

    Nothing is switched at import. When a Trainer starts with ``--bf16`` on the CPU, flash attention
    is switched off in that process, which is logged; to do the same elsewhere, call
    ``torch.backends.cuda.enable_flash_sdp(False)``, which in spite of its name governs the CPU too.
    """
    if hasattr(torch.backends.cuda, "enable_flash_sdp"):
        from fairseq import trainer

        fix = "math_attention_for_bf16_on_cpu"
        wrap_once(trainer.Trainer, "__init__", fix, _init_trainer)


def _init_trainer(original: Any, self: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
    original(self, cfg, *args, **kwargs)
    if self.cfg.common.bf16 and self.device.type == "cpu":
        torch.backends.cuda.enable_flash_sdp(False)
        logger.info("--bf16 on the CPU: torch's flash attention is off, its backward is slow there")
