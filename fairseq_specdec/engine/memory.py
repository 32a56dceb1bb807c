"""Weights of a model that are held elsewhere: in its checkpoint's file, or packed in the engine.

A weight of a mapped file takes no memory of its own, nor half of float32's where the file has half
precision; one that only decodes need not exist beside its packed form. Modules keep their class and
code: their parameter is a ``HeldWeight``, which torch's functions read as any other.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only


class Packed(NamedTuple):
    """A weight that only a product holds, in these of its rows."""

    product: Any  # a ``NativeLinear``, which imports this module
    rows: slice


_MOVES = {Tensor.to, Tensor.cpu, Tensor.cuda, Tensor.float, Tensor.double, Tensor.half,
          Tensor.bfloat16}  # fmt: skip
_GETTERS = "shape ndim dtype device requires_grad grad is_leaf is_meta is_cuda layout".split()
# What the placeholder answers.
_FACTS = {
    *(getattr(Tensor, name).__get__ for name in _GETTERS), Tensor.requires_grad.__set__,  # type: ignore[attr-defined]
    Tensor.size, Tensor.dim, Tensor.numel, Tensor.element_size, Tensor.is_floating_point,
    Tensor.is_complex, Tensor.requires_grad_, torch._has_compatible_shallow_copy_type,
}  # fmt: skip


class HeldWeight(nn.Parameter):
    """A weight whose numbers are in ``source``: a tensor in a checkpoint's precision, or
    ``Packed``. Its own memory is one NaN.

    Reading it gives a copy, so that the model's own code works as before, more slowly. Writing to
    it, or moving or converting it, makes it an ordinary parameter of all modules that share it.
    """

    source: Tensor | Packed

    def __new__(cls, like: Tensor, source: Tensor | Packed) -> HeldWeight:
        with torch.inference_mode(False):
            made = Tensor._make_subclass(cls, _placeholder(like), like.requires_grad)
        made.source = source
        return made

    def read(self, copy: bool = False) -> Tensor:
        """[out, in] in the weight's own precision. ``copy``: never the file's own memory."""
        if isinstance(self.source, Packed):
            rows = self.source.rows
            unpacked: Tensor = self.source.product.rows(torch.arange(rows.start, rows.stop))
            return unpacked
        return self.source.detach().to(self.dtype, copy=copy).contiguous()

    def look_up(self, ids: Tensor) -> Tensor:
        """[..., C], the rows ``ids`` (long [...])."""
        if isinstance(self.source, Packed):
            rows: Tensor = self.source.product.rows(ids)
            return rows
        return F.embedding(ids, self.source).to(self.dtype)

    def become(self, value: Tensor) -> None:
        """Be an ordinary parameter with these numbers."""
        with torch._C.DisableTorchFunctionSubclass():
            self.data = value  # first: other threads may read it
        self.__class__ = nn.Parameter  # type: ignore[assignment]
        del self.source

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Parameter:
        memo[id(self)] = made = nn.Parameter(self.read(copy=True), self.requires_grad)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return nn.Parameter(self.read(), self.requires_grad).__reduce_ex__(protocol)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs, held = kwargs or {}, args[0] if args else None
        with torch._C.DisableTorchFunctionSubclass():
            if func in _FACTS:
                return func(*args, **kwargs)
            if func is F.embedding and kwargs["max_norm"] is None:
                return args[1].look_up(held)
            if isinstance(held, cls):
                if func is Tensor.copy_:  # a checkpoint is loaded
                    held.source = args[1].detach()
                    return held
                if func in _MOVES:
                    probe = torch.zeros(1, dtype=held.dtype)
                    if func(probe, *args[1:], **kwargs) is probe:
                        return held  # to where and what it is already
                elif func == Tensor.data.__set__:  # type: ignore[attr-defined]
                    return None if args[1] is held else held.become(args[1])
                elif _writes(func):
                    _own(held)
            args, kwargs = tree_map_only(cls, cls.read, (args, kwargs))
            return func(*args, **kwargs)


def _writes(func: Any) -> bool:
    name = func.__name__
    access = func == Tensor.data.__get__ or name in ("__set__", "__setitem__")  # type: ignore[attr-defined]
    return access or (name.endswith("_") and not name.endswith("__"))


def _placeholder(like: Tensor) -> Tensor:
    return torch.full((1,), float("nan"), dtype=like.dtype).expand(like.shape)


def _own(weight: HeldWeight) -> None:
    with torch.inference_mode(False):
        weight.become(weight.read(copy=True))


def store(model: nn.Module) -> None:
    """Free the weights of a model in float32 that a checkpoint is loaded into next.

    Those of nn.Linear and nn.Embedding are then taken from the checkpoint as they are. Until then
    they are NaN.
    """
    for module in model.modules():
        weight = module._parameters.get("weight")
        plain = type(module) in (nn.Linear, nn.Embedding) and type(weight) is nn.Parameter
        if plain and weight.dtype == torch.float32 and weight.device.type == "cpu":  # type: ignore[union-attr]
            held: Any = weight
            held.source = held.data = _placeholder(held)
            held.__class__ = HeldWeight  # in all modules that share it


def restore(model: Any) -> None:
    """Give all of a model, or of a part of one, that is not packed memory of its own again."""
    for weight in model.parameters() if isinstance(model, nn.Module) else ():
        if isinstance(weight, HeldWeight) and not isinstance(weight.source, Packed):
            _own(weight)


def numbers(weight: Tensor) -> Tensor:
    """A weight in the precision that it is stored in, not copied where it is not packed."""
    source = getattr(weight, "source", None)
    return (source if isinstance(source, Tensor) else weight).detach()


def joined(tensors: list[Tensor | None]) -> Tensor | None:
    """One below the other; None of nothing but None.

    Raises:
        ValueError: some are None.
    """
    parts = [tensor.detach() for tensor in tensors if tensor is not None]
    if parts and len(parts) != len(tensors):
        raise ValueError("projections of one attention, some with and some without bias")
    if len(parts) < 2:
        return parts[0] if parts else None
    return torch.cat(parts)


def replace(modules: Sequence[nn.Module], product: Any, tied: Sequence[nn.Module] = ()) -> None:
    """Let a product alone hold the weights of modules, unless one of them is packed already.

    A weight that another module holds too stays in memory, and in that module.

    Args:
        modules: nn.Linear; ``product``, a ``NativeLinear``, holds their weights side by side.
        tied: they hold the weight of the first one too; nn.Embedding only where the product has
            ``rows``.
    """
    if any(packed_source(module) is not None for module in [*modules, *tied]):
        return
    start = 0
    for i, module in enumerate(modules):
        weight: Any = module._parameters["weight"]
        rows = slice(start, start + weight.size(0))
        start = rows.stop
        held = HeldWeight(weight, Packed(product, rows))
        for each in [module, *tied] if i == 0 else [module]:
            each._parameters["weight"] = held


def packed_source(holder: Any) -> Packed | None:
    """Where the weight of a module is packed, or a weight itself; None where it is not."""
    weight = holder._parameters.get("weight") if isinstance(holder, nn.Module) else holder
    source = getattr(weight, "source", None)
    return source if isinstance(source, Packed) else None


def product_of(modules: Sequence[nn.Module]) -> Any:
    """The ``NativeLinear`` that holds the weights of these modules, all of them and no others, or
    None."""
    product: Any = None
    start = 0
    for module in modules:
        held = packed_source(module)
        if held is None or held.rows.start != start or product not in (None, held.product):
            return None
        product, start = held.product, held.rows.stop
    return product if product is not None and start == product.size else None


def not_finite(model: nn.Module) -> str | None:
    """The name of a model's first parameter that holds NaN or infinity; None where none does, of
    those that exist in more than a format that rounds."""
    for name, weight in model.named_parameters():
        held = packed_source(weight)
        known = held is None or held.product.exact
        if known and not bool(torch.isfinite(numbers(weight)).all()):
            return name
    return None


def give_back_freed_memory() -> None:
    """Return free memory to the operating system, where the C library is glibc.

    Freed weights leave gaps between the blocks still in use, too small for the next allocations.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def only_decodes(model: nn.Module) -> bool:
    """Whether fairseq has prepared this model for decoding, so that nothing trains or saves it."""
    return bool(getattr(model, "_is_generation_fast", False))
