"""What a checkpoint may name, and the plain records that replace what has code of its own."""

from __future__ import annotations

import argparse
import math
import re
from typing import Any

import numpy as np
import torch


class Node:
    """A node of omegaconf, a meter of fairseq 0.9 or a type that one names: its fields alone."""


class Dtype:
    """A number format of numpy; whatever else the file says of it is left out."""

    def __init__(self, name: Any, *_: Any) -> None:
        self.name, self.order = name, "="

    def __setstate__(self, state: Any) -> None:
        self.order = state[1]

    def made(self) -> np.dtype[Any]:
        if type(self.name) is not str or not re.fullmatch("b1|[iu][1248]|f[248]", self.name):
            raise ValueError(f"it holds arrays of {self.name!r}")
        if type(self.order) is not str or self.order not in ("<", ">", "|", "="):
            raise ValueError("it holds arrays of an odd byte order")
        return np.dtype(self.order + self.name)


class Array:
    """The parts of a numpy array, which ``--eval-bleu`` keeps."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def made(self) -> np.ndarray:
        _, shape, dtype, fortran, data = self.state
        sound = type(shape) is tuple and all(type(n) is int and n >= 0 for n in shape)
        if not sound or type(dtype) is not Dtype or type(data) is not bytes:
            raise ValueError("it holds an array of odd parts")
        kind = dtype.made()
        if len(data) != math.prod(shape) * kind.itemsize:
            raise ValueError("it holds an array of another size")
        return np.ndarray(shape, kind, data, order="F" if fortran else "C").copy("K")


def _number(dtype: Any, data: Any) -> Any:
    """A number of numpy's, as Python's."""
    array = Array()
    array.state = (1, (), dtype, False, data)
    return array.made().item()


def _dictionary(factory: Any = None) -> dict[Any, Any]:
    return {}


def _no_bytes() -> bytes:
    return b""


_NODES = (
    "omegaconf.dictconfig.DictConfig", "omegaconf.listconfig.ListConfig", "omegaconf.nodes.AnyNode",
    "omegaconf.base.ContainerMetadata", "omegaconf.base.Metadata", "typing.Any",
    "fairseq.meters.AverageMeter", "fairseq.meters.TimeMeter", "fairseq.meters.StopwatchMeter",
)  # fmt: skip
# As torch names them, and as protocol 2 writes them.
_OF_PYTHON: dict[tuple[str, str], Any] = {
    ("builtins.dict", "__builtin__.dict"): Node,
    ("builtins.list", "__builtin__.list"): Node,
    ("builtins.int", "__builtin__.long"): Node,
    ("builtins.bytes", "__builtin__.bytes"): _no_bytes,
}
# What torch allows itself.
_OF_TORCH = frozenset(
    ["torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter", "torch.Size"]
    + ["torch.device", "collections.OrderedDict", "_codecs.encode"]
    + [f"torch.{kind}Storage" for kind in ("Double", "Float", "Half", "BFloat16", "Long", "Int",
                                           "Short", "Char", "Byte", "Bool")]
    + [str(each) for each in vars(torch).values() if isinstance(each, torch.dtype)]
)  # fmt: skip


def allowed() -> list[Any]:
    """For ``torch.serialization.add_safe_globals``: (ours, name in the file)."""
    from fairseq.distributed.utils import _TensorPlaceholder

    entries: list[Any] = [(Node, name) for name in _NODES]
    entries += [(ours, name) for (name, _), ours in _OF_PYTHON.items()]
    for core in ("numpy.core.multiarray", "numpy._core.multiarray"):
        entries += [(Array, f"{core}._reconstruct"), (_number, f"{core}.scalar")]
    return [
        *entries, (Array, "numpy.ndarray"), (Dtype, "numpy.dtype"),
        (_dictionary, "collections.defaultdict"), (argparse.Namespace, "argparse.Namespace"),
        (_TensorPlaceholder, "fairseq.distributed.utils._TensorPlaceholder"),
    ]  # fmt: skip


def names() -> frozenset[str]:
    """All that a checkpoint may name, as the file spells it."""
    return _OF_TORCH.union(name for _, name in allowed()).union(name for _, name in _OF_PYTHON)


def finished(state: Any) -> Any:
    """``state`` with numpy's arrays for their parts, in the containers that held these."""
    if isinstance(state, Array):
        return state.made()
    left, seen = [state], {}
    while left:
        held = left.pop()
        if id(held) in seen or not isinstance(held, (dict, list, tuple)):
            continue
        seen[id(held)] = held
        items = list(held.items() if isinstance(held, dict) else enumerate(held))
        for key, value in items:
            if isinstance(value, Array) and not isinstance(held, tuple):
                held[key] = value.made()
        left += [value for _, value in items]
    return state
