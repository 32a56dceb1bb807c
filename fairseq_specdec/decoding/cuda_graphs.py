"""Whether passes are recorded as CUDA graphs (``--cuda-graphs``)."""

from collections.abc import Sequence
from typing import Any

import torch

from fairseq_specdec.engine.graphs import Graphs
from fairseq_specdec.errors import UsageError

from .options import DecodingOptions

# Rows up to which iterations are faster with CUDA graphs (H200).
_MOST_ROWS = 32


def check_cuda_graphs(asked: str, device: torch.device) -> None:
    """Refuse graphs where there is no GPU."""
    if asked == "on" and device.type != "cuda":
        raise UsageError(
            "--cuda-graphs on",
            f"the models are on {device}, and only a GPU has graphs",
            "use auto or off, or leave out --cpu",
        )


def graphs_for(options: DecodingOptions, models: Sequence[Any], drafter: Any) -> Graphs | None:
    """The graphs of a generator; None where none are recorded."""
    if options.cuda_graphs == "off" or not next(models[0].parameters()).is_cuda:
        return None
    rows = _MOST_ROWS if options.cuda_graphs == "auto" else None
    return Graphs(getattr(drafter, "block_size", None), rows)
