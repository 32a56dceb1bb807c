"""Numbers on their way to the device, and back."""

from typing import Any

import numpy as np
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


def read_back(log_probs: Tensor, tokens: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """float32 and long tensors of one shape as arrays; the host waits for a GPU once."""
    if not log_probs.is_cuda:
        return log_probs.numpy(), tokens.numpy()
    bits, words = torch.stack([log_probs.view(torch.int32).long(), tokens]).cpu().numpy()
    return bits.astype(np.int32).view(np.float32), words
