"""What a checkpoint may hold beyond plain values, and how each is made from checked arguments."""

import argparse
import collections
import math
import re
import typing
from pickle import UnpicklingError
from typing import Any, Callable, Dict, NamedTuple, Tuple

import numpy as np
import torch

from fairseq_specdec.io.printable import printable

_DTYPES = {
    "Double": torch.float64,
    "Float": torch.float32,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Long": torch.int64,
    "Int": torch.int32,
    "Short": torch.int16,
    "Char": torch.int8,
    "Byte": torch.uint8,
    "Bool": torch.bool,
}
_LARGEST = 2**40  # elements along a dimension


class Named(NamedTuple):
    """A name in the file of something that can be called or made; it does nothing itself."""

    name: str


class StorageKind(NamedTuple):
    """A storage class that the file names."""

    dtype: torch.dtype


class Storage:
    """Memory of tensors."""

    def __init__(self, flat: torch.Tensor) -> None:
        self.flat = flat


def require(right: bool, what: str) -> None:
    if not right:
        raise UnpicklingError(f"it holds {what}, which no checkpoint does; it was not made")


def scalar(value: Any) -> bool:
    """Whether a value is plain, and no container."""
    return value is None or type(value) in (str, int, float, bool)


def _is_natural(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _no_hooks(value: Any) -> bool:
    return type(value) is collections.OrderedDict and not value


def _tensor(
    storage: Any, offset: Any, size: Any, stride: Any, gradient: Any, hooks: Any
) -> torch.Tensor:
    """``torch._utils._rebuild_tensor_v2``, which does not check the size."""
    require(type(storage) is Storage, "a tensor without storage")
    require(type(size) is tuple and type(stride) is tuple, "a tensor without size")
    require(len(size) == len(stride) <= 64, "a tensor of odd dimensions")
    require(all(map(_is_natural, (offset, *size, *stride))), "a tensor of odd size")
    require(type(gradient) is bool, "an odd tensor")
    require(_no_hooks(hooks), "a tensor with hooks")
    end, count = offset, math.prod(size)
    if count:
        end += 1 + sum((n - 1) * step for n, step in zip(size, stride))
    have = storage.flat.numel()
    require(end <= have and count <= have, f"a tensor of {max(end, count)} elements in {have}")
    tensor = torch.empty(0, dtype=storage.flat.dtype).set_(storage.flat, offset, size, stride)
    return tensor.requires_grad_(gradient)


def _parameter(data: Any, gradient: Any, hooks: Any) -> torch.nn.Parameter:
    require(type(data) is torch.Tensor and type(gradient) is bool, "an odd parameter")
    require(_no_hooks(hooks), "a parameter with hooks")
    return torch.nn.Parameter(data, gradient)


def _defaultdict(factory: Any) -> Any:
    require(any(factory is one for one in (dict, list, int)), "an odd defaultdict")
    return collections.defaultdict(factory)


def _encode(text: Any, codec: Any) -> bytes:
    """Bytes, which protocol 2 writes as text."""
    require(type(text) is str and codec == "latin1", "odd bytes")
    return str(text).encode("latin1")


def _size(numbers: Any) -> torch.Size:
    sound = type(numbers) in (tuple, list) and all(type(n) is int and n >= 0 for n in numbers)
    require(sound, "an odd size")
    return torch.Size(numbers)


def _device(kind: Any, index: Any = 0) -> torch.device:
    require(kind in ("cpu", "cuda") and type(index) is int and index >= 0, "an odd device")
    return torch.device("cpu") if kind == "cpu" else torch.device(kind, index)


def _dtype(name: Any, align: Any, copy: Any) -> Any:
    require(type(name) is str and align in (0, False) and copy in (1, True), "an odd dtype")
    require(re.fullmatch("b1|[iu][1248]|f[248]", name) is not None, f"arrays of {name!r}")
    return np.dtype(name, False, True)  # a copy: its byte order is set below


def _array(kind: Any, shape: Any, code: Any) -> Any:
    require(kind == Named("numpy.ndarray") and shape == (0,) and code == b"b", "an odd array")
    return np.ndarray((0,), "b")


def _scalar(kind: Any, data: Any) -> Any:
    """A number of numpy's, as Python's."""
    require(isinstance(kind, np.dtype) and type(data) is bytes, "an odd number")
    require(len(data) == kind.itemsize, "a number of another size")
    return np.frombuffer(data, kind)[0].item()


def _set_dtype(made: Any, state: Any) -> None:
    require(type(state) is tuple and len(state) == 8, "a dtype with more to it")
    require(state[1] in ("<", ">", "|") and state[2:5] == (None, None, None), "a dtype of parts")
    made.__setstate__((3, state[1], None, None, None, -1, -1, 0))


def _set_array(made: Any, state: Any) -> None:
    require(type(state) is tuple and len(state) == 5, "an odd array")
    _, shape, dtype, fortran, data = state
    require(type(shape) is tuple and len(shape) <= 32, "an array of odd shape")
    require(all(map(_is_natural, shape)), "an array of odd shape")
    require(isinstance(dtype, np.dtype), "an array without dtype")
    require(type(fortran) in (bool, int) and type(data) is bytes, "an odd array")
    require(len(data) == math.prod(shape) * dtype.itemsize, "an array of another size")
    require(made.shape == (0,), "an array that is filled twice")
    made.__setstate__((1, shape, dtype, bool(fortran), data))


def _set_ordered(made: Any, state: Any) -> None:
    """The versions of modules, which torch keeps beside the parameters."""
    require(type(state) is dict and list(state) == ["_metadata"], "an odd OrderedDict")
    made.__dict__.update(state)


def _set_fields(made: Any, state: Any) -> None:
    require(type(state) is dict, f"a {type(made).__name__} without fields")
    for name in state:
        sound = type(name) is str and not name.startswith("__")
        sound = sound and not callable(getattr(type(made), name, None))
        require(sound, f"a {type(made).__name__} with a field {str(name)[:40]!r}")
    made.__dict__.update(state)


def _omegaconf() -> Tuple[Dict[str, Any], Dict[Any, Callable[[Any, Any], None]]]:
    """omegaconf's classes by name, and how the fields of each are set."""
    from omegaconf import DictConfig, ListConfig, base, nodes

    containers = (DictConfig, ListConfig)
    held = (*containers, nodes.AnyNode)

    def set_node(made: Any, state: Any) -> None:
        node = type(made).__name__
        value = "_content" if isinstance(made, containers) else "_val"
        require(type(state) is dict, f"an odd {node}")
        require(set(state) | {"_flags_cache"} == {"_metadata", "_parent", "_flags_cache", value},
                f"a {node} with odd fields")  # fmt: skip
        metadata = base.ContainerMetadata if value == "_content" else base.Metadata
        require(type(state["_metadata"]) is metadata, f"a {node} without metadata")
        parent, flags = state["_parent"], state.get("_flags_cache")
        require(parent is None or type(parent) in containers, f"a {node} with an odd parent")
        require(flags is None or type(flags) is dict, f"a {node} with odd flags")
        if value == "_content":
            inner = state[value]
            inner = inner.values() if type(inner) is dict else inner
            sound = type(state[value]) is (dict if type(made) is DictConfig else list)
            sound = sound and all(type(one) in held for one in inner)
            require(sound or inner is None or type(inner) is str, f"a {node} with odd content")
        set_state = getattr(made, "__setstate__", None)
        set_state(state) if set_state else made.__dict__.update(state)

    classes = {f"{one.__module__}.{one.__qualname__}": one for one in held}
    plain = (base.ContainerMetadata, base.Metadata)
    classes.update({f"{one.__module__}.{one.__qualname__}": one for one in plain})
    setters: Dict[Any, Callable[[Any, Any], None]] = {one: set_node for one in held}
    setters.update({one: _set_fields for one in plain})
    return classes, setters


def _of_fairseq() -> Dict[str, Any]:
    """Classes of which fairseq's checkpoints hold plain instances, by name."""
    from fairseq.distributed import utils as distributed_utils
    from fairseq.logging import meters

    made: Dict[str, Any] = {
        "argparse.Namespace": argparse.Namespace,
        "fairseq.distributed.utils._TensorPlaceholder": distributed_utils._TensorPlaceholder,
    }
    for kind in (meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter):
        made[f"fairseq.meters.{kind.__name__}"] = kind  # as fairseq 0.9 named them
    return made


class Objects:
    """The table of names, by what may be done with each. ``mappings``: types that items are set
    on."""

    mappings = (dict, collections.OrderedDict, collections.defaultdict)

    def __init__(self) -> None:
        self._values: Dict[str, Any] = {
            "typing.Any": typing.Any,
            "__builtin__.dict": dict,  # Python 2's names, which protocol 2 writes
            "__builtin__.list": list,
            "__builtin__.long": int,
            **{f"torch.{name}Storage": StorageKind(dtype) for name, dtype in _DTYPES.items()},
            **{str(dtype): dtype for dtype in _DTYPES.values()},
            "numpy.ndarray": Named("numpy.ndarray"),
        }
        self._calls: Dict[str, Callable[..., Any]] = {
            "collections.OrderedDict": lambda: collections.OrderedDict(),
            "collections.defaultdict": _defaultdict,
            "torch._utils._rebuild_tensor_v2": _tensor,
            "torch._utils._rebuild_parameter": _parameter,
            # Of tensors that one process announces to others as it sends a checkpoint.
            "torch.Size": _size,
            "torch.device": _device,
            "_codecs.encode": _encode,
            "__builtin__.bytes": lambda: b"",
            "numpy.dtype": _dtype,
            "numpy.core.multiarray._reconstruct": _array,
            "numpy._core.multiarray._reconstruct": _array,
            "numpy.core.multiarray.scalar": _scalar,
            "numpy._core.multiarray.scalar": _scalar,
        }
        made = _of_fairseq()
        self._states: Dict[Any, Callable[[Any, Any], None]] = {
            kind: _set_fields for kind in made.values()
        }
        classes, setters = _omegaconf()
        self._classes: Dict[str, Any] = {**made, **classes}
        self._states.update(setters)
        self._states[collections.OrderedDict] = _set_ordered
        self._states[np.ndarray] = _set_array

    def named(self, module: str, name: str) -> Any:
        """The entry of a name in the file."""
        full = f"{module}.{name}"
        if full in self._values:
            return self._values[full]
        if full not in self._calls and full not in self._classes:
            raise UnpicklingError(
                f"it names {printable(full)}, which no fairseq checkpoint holds; "
                "nothing of it was run"
            )
        return Named(full)

    def call(self, what: Named, arguments: Tuple[Any, ...]) -> Any:
        """The result of a function of the table."""
        require(what.name in self._calls, f"a call of {what.name}")
        return self._calls[what.name](*arguments)

    def new(self, what: Named, arguments: Tuple[Any, ...]) -> Any:
        """An instance of a class of the table, without fields as yet."""
        require(what.name in self._classes and not arguments, f"a new {what.name}")
        made = self._classes[what.name]
        return made.__new__(made)

    def build(self, made: Any, state: Any) -> None:
        """Set the fields of an object of the table."""
        kind = np.dtype if isinstance(made, np.dtype) else type(made)
        setter = _set_dtype if kind is np.dtype else self._states.get(kind)
        if setter is None:
            raise UnpicklingError(f"it sets the state of a {kind.__name__}; it was not set")
        setter(made, state)
