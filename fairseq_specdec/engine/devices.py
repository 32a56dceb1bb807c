"""The precisions of weights, and what a GPU can run, asked before the first kernel fails."""

import logging
from collections.abc import Sequence
from typing import NamedTuple

import torch

from fairseq_specdec.errors import UsageError

logger = logging.getLogger(__name__)


class NumberFormat(NamedTuple):
    """One format.

    Attributes:
        dtype: of a tensor; None of weights that exist packed alone.
        nbytes: of a number.
        packed: of a weight packed in the native library, ``specdec::Format`` (product.h); None
            where it packs none.
    """

    dtype: torch.dtype | None
    nbytes: int
    packed: int | None


NUMBER_FORMATS: dict[str, NumberFormat] = {
    "fp32": NumberFormat(torch.float32, 4, 0),
    "fp16": NumberFormat(torch.float16, 2, None),
    "bf16": NumberFormat(torch.bfloat16, 2, 1),
    "int8": NumberFormat(torch.int8, 1, 2),
    "int7": NumberFormat(None, 1, 4),
}
PACKED = tuple(name for name, form in NUMBER_FORMATS.items() if form.packed is not None)
# Of a drafter, whose rows are in them too.
OF_DRAFTERS = tuple(name for name, form in NUMBER_FORMATS.items() if form.dtype is not None)
# In which a torch module computes.
COMPUTED = tuple(
    name
    for name, form in NUMBER_FORMATS.items()
    if form.dtype is not None and form.dtype.is_floating_point
)

Capability = tuple[int, int]

BF16_SINCE: Capability = (8, 0)
"""Compute capability of the first cards with bf16 units (A100)."""

_INDEX = "https://download.pytorch.org/whl/"
# From this capability on, what to install; the first line that fits, from below.
_WHEELS: Sequence[tuple[Capability, str]] = (
    ((10, 0), f"pip install 'torch>=2.7' --index-url {_INDEX}cu128"),
    ((9, 0), f"pip install 'torch>=2.0' --index-url {_INDEX}cu126"),
    ((5, 0), f"pip install torch==2.10.0 --index-url {_INDEX}cu126"),
)


def runs_on(capability: Capability, archs: Sequence[str]) -> bool:
    """Whether a build of torch has kernels for a card.

    Args:
        capability: of the card, (7, 0) for a V100.
        archs: of the build, as ``torch.cuda.get_arch_list`` gives them: ``sm_XY`` runs on cards of
            the same major number and no smaller minor one, ``compute_XY`` on all later ones.
    """
    for arch in archs:
        kind, _, number = arch.rstrip("af").partition("_")
        if not number.isdigit():
            continue
        built = divmod(int(number), 10)
        if kind == "sm" and built[0] == capability[0] and built[1] <= capability[1]:
            return True
        if kind == "compute" and built <= capability:
            return True
    return False


def why_not(capability: Capability, archs: Sequence[str], card: str) -> str | None:
    """Why a card cannot run this build of torch and what to install; None where it can."""
    if not archs or runs_on(capability, archs):
        return None
    number = "{}{}".format(*capability)
    remedy = next(
        (line for since, line in _WHEELS if capability >= since), "decode on the CPU, with --cpu"
    )
    return (
        f"{card} (sm_{number}): this torch ({torch.__version__}) has kernels for "
        f"{', '.join(archs)} only; {remedy} (see docs/gpu.md), or decode with --cpu"
    )


def check_device(device: torch.device) -> None:
    """Refuse a GPU that this build of torch has no kernels for."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return
    capability = torch.cuda.get_device_capability(device)
    reason = why_not(capability, torch.cuda.get_arch_list(), torch.cuda.get_device_name(device))
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
