"""Training with ``--bf16`` on machines without a TPU, and on the CPU."""

import sys
from typing import Any

import torch

from .patch import wrap_once


def bf16_without_tpu() -> None:
    """Let ``--bf16`` mean the number format, not a TPU.

    Fault: ``options.parse_args_and_arch`` sets ``tpu`` whenever ``--bf16`` is given, so that
    ``fairseq-train --bf16`` dies without torch_xla: "'NoneType' object has no attribute
    'xla_device'". Versions: all. ``--tpu`` still asks for a TPU.
    """
    from fairseq import options, utils

    if getattr(utils, "xm", None) is None:
        wrap_once(options, "parse_args_and_arch", _parse_args_and_arch)


def _parse_args_and_arch(
    original: Any, parser: Any, input_args: Any = None, *args: Any, **kwargs: Any
) -> Any:
    result = original(parser, input_args, *args, **kwargs)
    parsed = result[0] if isinstance(result, tuple) else result  # (args, extra) with parse_known
    given = sys.argv[1:] if input_args is None else input_args
    if getattr(parsed, "bf16", False) and "--tpu" not in given:
        parsed.tpu = False
    return result


def math_attention_for_bf16_on_cpu() -> None:
    """Train in bf16 on the CPU with torch's plain attention.

    Fault: the backward of torch's flash attention on the CPU is about five times slower in bf16
    than plain matrix products (208 of 600 ms a step, 2 cores, torch 2.13). Versions: torch >= 2.0.

    It is switched off where a Trainer starts with ``--bf16`` on the CPU.
    """
    from fairseq import trainer

    wrap_once(trainer.Trainer, "__init__", _init_trainer)


def _init_trainer(original: Any, self: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
    original(self, cfg, *args, **kwargs)
    if self.cfg.common.bf16 and self.device.type == "cpu":
        torch.backends.cuda.enable_flash_sdp(False)  # governs the CPU too
