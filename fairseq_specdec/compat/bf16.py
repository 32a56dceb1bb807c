"""Training with ``--bf16`` on machines without a TPU, and on the CPU."""

import sys
from typing import Any

import torch
from fairseq import utils

from .patch import fixes


@fixes("fairseq.options.parse_args_and_arch")
def bf16_without_tpu(
    original: Any, parser: Any, input_args: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """Let ``--bf16`` mean the precision, not a TPU.

    Fault: ``options.parse_args_and_arch`` sets ``tpu`` whenever ``--bf16`` is given, so that
    ``fairseq-train --bf16`` dies without torch_xla: "'NoneType' object has no attribute
    'xla_device'". Versions: all. ``--tpu`` still needs a TPU.
    """
    result = original(parser, input_args, *args, **kwargs)
    parsed = result[0] if isinstance(result, tuple) else result  # (args, extra) with parse_known
    given = sys.argv[1:] if input_args is None else input_args
    lacks_tpu = getattr(utils, "xm", None) is None and "--tpu" not in given
    if getattr(parsed, "bf16", False) and lacks_tpu:
        parsed.tpu = False
    return result


@fixes("fairseq.trainer.Trainer.__init__")
def math_attention_for_bf16_on_cpu(
    original: Any, self: Any, cfg: Any, *args: Any, **kwargs: Any
) -> None:
    """Train in bf16 on the CPU with torch's plain attention.

    Fault: the backward of torch's flash attention on the CPU takes two to three times as long in
    bf16 as plain matrix products (torch 2.13, Zen 5: 19 and 6 ms for 64 sentences of 30 tokens, 4
    heads 64 wide). Versions: all.
    """
    original(self, cfg, *args, **kwargs)
    if self.cfg.common.bf16 and self.device.type == "cpu":
        torch.backends.cuda.enable_flash_sdp(False)  # governs the CPU too
