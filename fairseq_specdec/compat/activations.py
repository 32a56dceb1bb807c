"""Activation functions that fairseq has a name for and cannot run."""

from collections.abc import Callable
from typing import Any

import torch
from fairseq.modules import conformer_layer  # noqa: F401  (before the name is replaced)

from .patch import fixes


@fixes("fairseq.utils.get_activation_fn")
def run_swish(original: Callable[[str], Any], activation: str) -> Any:
    """Let ``activation_fn=swish`` run: Marian's models use it.

    Fault: ``utils.get_activation_fn("swish")`` returns the class ``torch.nn.SiLU``, which a
    Transformer's layer calls with a tensor ("linear(): argument 'input' ... not SiLU"). Versions:
    those that know the name, 0.12 and later.

    The Conformer makes an object of the class; it holds the function by its own name, as stock.
    """
    function = original(activation)
    return torch.nn.functional.silu if function is torch.nn.SiLU else function
