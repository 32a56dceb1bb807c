"""Modules of a model whose weights exist only packed, in the engine's products."""

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from .stored_module import STORED, stored_numbers


class Product(Protocol):
    """Holds the packed weights of modules, side by side."""

    size: int

    @property
    def rows(self) -> Callable[[Tensor], Tensor] | None:
        """Looks up rows of the weight, long [...] to [..., in]; None where it cannot."""

    def unpacked(self) -> Tensor:
        """[size, in]."""


class _PackedWeight(NamedTuple):
    """A weight that only a product holds, in these of its rows. ``finite``: the weight held neither
    NaN nor infinity."""

    product: Product
    rows: slice
    finite: bool


class PackedModule(nn.Module):
    """A module whose weight only a packed product holds.

    Reading ``weight`` unpacks it, so that the model's own ``forward`` works as before, more slowly.
    Saving, copying, moving, converting and loading raise RuntimeError. ``parameters()`` has one NaN
    in the weight's shape instead.
    """

    _packed: _PackedWeight

    @staticmethod
    def replace(
        modules: Sequence[nn.Module],
        product: Product,
        tied: Sequence[nn.Module] = (),
        finite: Sequence[bool] | None = None,
    ) -> None:
        """Replace the weights of modules by the packed ones of a product.

        A weight that another module holds too stays in memory, and in that module. If a module is
        of another class than nn.Linear or nn.Embedding itself, nothing is replaced.

        Args:
            modules: nn.Linear; ``product`` holds their weights side by side.
            tied: they hold the weight of the first one too, nn.Embedding only where the product
                has ``rows``.
            finite: of each module, whether its weight holds neither NaN nor infinity; None to look.
        """
        if any(type(module) not in _PACKED for module in [*modules, *tied]):
            return
        start = 0
        for i, module in enumerate(modules):
            weight: Any = module._parameters["weight"]
            rows = slice(start, start + weight.size(0))
            start = rows.stop
            sharing = [module, *tied] if i == 0 else [module]
            sound = _finite(stored_numbers(module)) if finite is None else finite[i]
            packed = _PackedWeight(product, rows, sound)
            with torch.inference_mode(False):
                placeholder = weight.new_full((1,), float("nan")).expand(weight.shape)
                parameter = nn.Parameter(placeholder, weight.requires_grad)
            for other in sharing:
                other._parameters["weight"] = parameter
                other.__class__ = _PACKED[type(other)]
                other.__dict__["_packed"] = packed
                other.__dict__.pop("_stored", None)

    @property
    def weight(self) -> Tensor:
        """[out, in], a copy."""
        packed = self._packed
        return packed.product.unpacked()[packed.rows]

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        if getattr(self._packed.product, "packed_as", None) is not None:
            raise RuntimeError(
                "the model's weights are packed for a CPU (specdec-convert pack); use the "
                "checkpoint that they were packed from"
            )
        raise RuntimeError(
            "the model's weights were freed when they were packed for decoding; load the "
            "checkpoint again, or decode with --keep-weights (keep_weights=True in Python)"
        )

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        probe = torch.zeros(1, dtype=self._parameters["weight"].dtype)  # type: ignore[union-attr]
        return self if fn(probe) is probe else self._refuse()  # to where and what it is already

    _save_to_state_dict = _load_from_state_dict = __reduce_ex__ = _refuse


class PackedLinear(PackedModule, nn.Linear):  # type: ignore[misc,override]
    """An nn.Linear whose weight is packed."""


class PackedEmbedding(PackedModule, nn.Embedding):  # type: ignore[misc,override]
    """An nn.Embedding whose rows are looked up in the product of the projection it is tied to."""

    def forward(self, ids: Tensor) -> Tensor:
        """[..., C], the rows ``ids`` (long [...])."""
        rows = self._packed.product.rows
        assert rows is not None
        return rows(ids)


_PACKED = {nn.Linear: PackedLinear, nn.Embedding: PackedEmbedding}
_PACKED.update({STORED[plain]: packed for plain, packed in _PACKED.items()})


def _finite(weight: Tensor) -> bool:
    """Whether a weight holds neither NaN nor infinity; piece by piece, to save memory."""
    pieces = weight.detach().reshape(-1).split(1 << 22)
    return all(bool(torch.isfinite(piece).all()) for piece in pieces)


def not_finite(model: nn.Module) -> str | None:
    """The name of a model's first parameter that holds NaN or infinity; None where none does."""
    for path, module in model.named_modules():
        for name, parameter in module._parameters.items():
            if parameter is None:
                continue
            if isinstance(module, PackedModule) and name == "weight":
                finite = module._packed.finite
            else:
                finite = _finite(stored_numbers(module) if name == "weight" else parameter)
            if not finite:
                return f"{path}.{name}" if path else name
    return None


def packed_product_of(modules: tuple[nn.Module, ...]) -> Product | None:
    """The product that holds the weights of these modules, all of them and no others, or None."""
    first = modules[0]
    if not isinstance(first, PackedModule):
        return None
    product, start = first._packed.product, 0
    for module in modules:
        if not isinstance(module, PackedModule) or module._packed.product is not product:
            return None
        if module._packed.rows.start != start:
            return None
        start = module._packed.rows.stop
    return product if start == product.size else None


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
