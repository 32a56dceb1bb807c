"""What a checkpoint may name, and the plain records that replace what has code of its own."""

from __future__ import annotations

import argparse
import re
from typing import Any

import numpy as np
import torch
from fairseq.distributed.utils import _TensorPlaceholder


class Node:
    """A node of omegaconf, a meter of fairseq 0.9 or a type that one names: its fields alone."""


class Dtype:
    """A precision of numpy; whatever else the file says of it is left out."""

    def __init__(self, name: Any, *_: Any) -> None:
        self.name, self.order = name, "="

    def __setstate__(self, state: Any) -> None:
        self.order = state[1]

    def made(self) -> np.dtype[Any]:
        text = "".join((self.order, self.name))
        if not re.fullmatch("[<>|=](b1|[iu][1248]|f[248])", text):
            raise ValueError(f"it holds arrays of {text[:80]!r}")
        return np.dtype(text)


class Array(np.ndarray):
    """A numpy array, which ``--eval-bleu`` keeps: its memory is its own, its items are numbers.
    Saved as numpy's."""

    def __new__(cls, *_: Any) -> Array:
        return super().__new__(cls, 0)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        made = np.frombuffer(data, dtype.made()).reshape(shape, order="F" if fortran else "C")
        if made.shape != shape:
            raise ValueError("it holds an array of a negative size")
        parts: Any = made.__reduce__()
        super().__setstate__(parts[2])

    def __reduce__(self) -> Any:
        return self.view(np.ndarray).__reduce__()


def _number(dtype: Any, data: Any) -> Any:
    """A number of numpy's, as Python's."""
    (number,) = np.frombuffer(data, dtype.made())
    return number.item()


_NODES = (
    "omegaconf.dictconfig.DictConfig", "omegaconf.listconfig.ListConfig", "omegaconf.nodes.AnyNode",
    "omegaconf.base.ContainerMetadata", "omegaconf.base.Metadata", "typing.Any",
    "fairseq.meters.AverageMeter", "fairseq.meters.TimeMeter", "fairseq.meters.StopwatchMeter",
    "builtins.dict", "builtins.list", "builtins.int",
)  # fmt: skip
# Ours, by the names that torch looks up.
OURS: dict[str, Any] = {
    **dict.fromkeys(_NODES, Node),
    "builtins.bytes": lambda: b"",
    "collections.defaultdict": lambda factory=None: {},
    "argparse.Namespace": argparse.Namespace,
    "fairseq.distributed.utils._TensorPlaceholder": _TensorPlaceholder,
    "numpy.ndarray": "an argument of _reconstruct, which nothing can call",
    "numpy.dtype": Dtype,
}
for _core in ("numpy.core.multiarray", "numpy._core.multiarray"):
    OURS.update({f"{_core}._reconstruct": Array, f"{_core}.scalar": _number})
# All that a checkpoint may name, as the file spells it: ours, Python's types as protocol 2 writes
# them, and a part of what torch allows itself.
NAMES = frozenset(
    [*OURS, *(f"__builtin__.{kind}" for kind in ("dict", "list", "long", "bytes"))]
    + ["torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter", "torch.Size"]
    + ["torch.device", "collections.OrderedDict", "_codecs.encode"]
    + [f"torch.{kind}Storage" for kind in ("Double", "Float", "Half", "BFloat16", "Long", "Int",
                                           "Short", "Char", "Byte", "Bool")]
    + [str(each) for each in vars(torch).values() if isinstance(each, torch.dtype)]
)  # fmt: skip
