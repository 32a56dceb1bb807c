"""Number formats of training that a machine without a GPU does not have."""

import logging
from typing import Any

import torch

from fairseq_specdec.errors import UsageError

from .patch import wrap_once

logger = logging.getLogger(__name__)


def name_formats_without_gpu() -> None:
    """Say in one line what to use in place of ``--fp16``, ``--amp`` and ``--bf16`` on a CPU.

    Fault: ``--fp16`` without a GPU dies in torch ("Torch not compiled with CUDA enabled").
    ``--amp`` trains in fp32 and does not say so. ``--bf16`` is emulated by most CPUs, which takes
    longer than fp32. Versions: all.
    """
    from fairseq.trainer import Trainer

    wrap_once(Trainer, "__init__", "name_formats_without_gpu", _init)


def _init(original: Any, trainer: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
    common = getattr(cfg, "common", cfg)  # an argparse.Namespace is flat
    if not common.tpu and not torch.cuda.is_available():
        _check(common)
    original(trainer, cfg, *args, **kwargs)


def _check(common: Any) -> None:
    """Refuse or name formats."""
    from ..engine.eager.linear import computes_in_bf16

    if common.fp16 and not common.memory_efficient_fp16:
        raise UsageError(
            "--fp16", "needs a GPU, and torch sees none", "leave it out to train in fp32"
        )
    if common.amp:
        logger.warning("--amp: has no effect without a GPU; training is in fp32")
    if common.bf16 and not computes_in_bf16():
        logger.warning("--bf16: this CPU emulates it, slower than fp32; leave it out")
