"""The duplicate parameters of fairseq 0.12.2's encoder layers."""

from typing import Any

import torch
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase

from .patch import fixes, wrap_once

DUPLICATES = (
    "in_proj_weight", "in_proj_bias", "out_proj_weight", "out_proj_bias", "fc1_weight", "fc1_bias",
    "fc2_weight", "fc2_bias",
)  # fmt: skip


@fixes("fairseq.modules.transformer_layer.TransformerEncoderLayerBase.upgrade_state_dict_named")
def strip_better_transformer(original: Any, layer: Any, state_dict: Any, name: str) -> None:
    """Remove BetterTransformer's copies of the weights, from layers and from checkpoints.

    Fault: in fairseq 0.12.2 every encoder layer registers eight extra parameters for torch's fast
    path. They stay zero, fail data-parallel training as unused, reach the checkpoint (which no
    other release then loads), and the fast path fails with "Mask Type should be defined". Versions:
    0.12.2 only; the checkpoints it wrote are repaired for every reader. Upstream issues 4858, 4899.
    """
    original(layer, state_dict, name)
    for duplicate in DUPLICATES:
        state_dict.pop(f"{name}.{duplicate}", None)


@fixes()
def _make_no_copies() -> None:
    layer: Any = TransformerEncoderLayerBase
    if "_load_from_state_dict" in vars(layer):  # defined by 0.12.2 alone, for the copies
        wrap_once(layer, "__init__", _init_without_duplicates)
        del layer._load_from_state_dict  # so that nn.Module's own is used


def _init_without_duplicates(original: Any, layer: Any, *args: Any, **kwargs: Any) -> None:
    original(layer, *args, **kwargs)
    for duplicate in DUPLICATES:
        delattr(layer, duplicate)
        setattr(layer, duplicate, torch.empty(0))  # TorchScript compiles the fast path, too
    layer.can_use_fastpath = False
