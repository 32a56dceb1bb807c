"""The precisions of weights, and what a GPU can run, asked before the first kernel fails."""

import logging

import torch

from fairseq_specdec.errors import UsageError

logger = logging.getLogger(__name__)


# In which a torch module computes.
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
# In which the native library packs weights, by specdec::Format (product.h).
FORMATS = {"fp32": 0, "bf16": 1, "int8": 2, "int7": 4}
PACKED = tuple(FORMATS)
OF_DRAFTERS = (*DTYPES, "int8")

BF16_SINCE = (8, 0)
"""Compute capability of the first cards with bf16 units (A100)."""


def why_not(device: torch.device) -> str | None:
    """Why a GPU cannot run this build of torch, and what to do; None where it can."""
    try:
        torch.ones(1, device=device).add_(1)
        return None
    except RuntimeError as error:
        number = "{}{}".format(*torch.cuda.get_device_capability(device))
        return (
            f"{torch.cuda.get_device_name(device)} (sm_{number}): this torch ({torch.__version__}) "
            f"does not run on it ({str(error).strip().partition(chr(10))[0]}); docs/gpu.md names "
            "the torch to install, or decode with --cpu"
        )


def check_device(device: torch.device) -> None:
    """Refuse a GPU that this build of torch has no kernels for."""
    reason = why_not(device) if device.type == "cuda" and torch.cuda.is_available() else None
    if reason is not None:
        raise UsageError("", reason)


def supported(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """A precision that the device computes in: fp16 for bf16 on cards without bf16 units,
    which torch would emulate slowly; that is logged as a warning."""
    if dtype != torch.bfloat16 or device.type != "cuda" or not torch.cuda.is_available():
        return dtype
    if torch.cuda.get_device_capability(device) >= BF16_SINCE:
        return dtype
    name = torch.cuda.get_device_name(device)
    logger.warning("--drafter-dtype bf16: a %s has no bf16 units; the drafter runs in fp16", name)
    return torch.float16
