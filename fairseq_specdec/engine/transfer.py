"""Numbers of the host on their way to the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def to_device(numbers: Any, device: torch.device) -> Tensor:
    """A tensor of Python numbers on a device, without waiting for it.

    ``torch.tensor(numbers, device=device)`` makes the host wait until a GPU has done all that was
    asked of it before.

    Args:
        numbers: a list of numbers, or a tensor on the CPU, which must not be changed afterwards
            until the device has been waited for.
        device: where to.
    """
    return torch.as_tensor(numbers).to(device, non_blocking=True)
