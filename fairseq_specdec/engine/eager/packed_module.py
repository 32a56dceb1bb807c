"""Modules of a model whose weights lie packed in the engine's products, and nowhere else."""

from __future__ import annotations

from typing import Any, List, Optional, Protocol, Sequence, Tuple, Type

import torch
from torch import Tensor, nn

from .packed_rows import PackedRows


class Product(Protocol):
    """What keeps the weights of modules, side by side."""

    size: int
    rows: Optional[PackedRows]

    def unpacked(self) -> Tensor:
        """[size, in]."""


class _Given:
    """A weight that modules gave to a product: its rows there, and whose it is."""

    def __init__(self, product: Product, rows: slice, modules: Sequence[nn.Module]) -> None:
        self.product = product
        self.rows = rows
        self.modules: List[nn.Module] = list(modules)

    def read(self) -> Tensor:
        return self.product.unpacked()[self.rows]

    def give_back(self) -> None:
        """The product keeps the weight too."""
        with torch.inference_mode(False):
            hollow = self.modules[0]._parameters["weight"]
            assert hollow is not None
            weight = nn.Parameter(self.read().clone(), hollow.requires_grad)
        for module in self.modules:
            assert isinstance(module, PackedModule)
            del module.__dict__["_given"]
            module.__class__ = module._plain  # type: ignore[assignment]
            module._parameters["weight"] = weight


class PackedModule(nn.Module):
    """A module that has given its weight to a packed product.

    To read ``weight`` unpacks it, so that the model's own ``forward``, and with it whatever fairseq
    does with a model, works as before, more slowly. Saving, copying, moving and converting put the
    weight back first, in all modules that share it. In ``parameters()`` stands one NaN in the
    weight's shape.
    """

    _given: _Given
    _plain: Type[nn.Module]

    @staticmethod
    def replace(
        modules: Sequence[nn.Module], product: Product, tied: Sequence[nn.Module] = ()
    ) -> None:
        """Let modules give their weights to a product.

        A weight that any other module holds stays as it is there, and in memory. Where one is of
        another class than nn.Linear or nn.Embedding itself, all are left alone.

        Args:
            modules: nn.Linear; ``product`` holds their weights side by side.
            tied: they hold the weight of the first one too, nn.Embedding only where the product
                has ``rows``.
        """
        if any(type(module) not in _PACKED for module in [*modules, *tied]):
            return
        start = 0
        for i, module in enumerate(modules):
            weight: Any = module.weight
            rows = slice(start, start + weight.size(0))
            start = rows.stop
            sharing = [module, *tied] if i == 0 else [module]
            given = _Given(product, rows, sharing)
            with torch.inference_mode(False):
                hollow = weight.new_full((1,), float("nan")).expand(weight.shape)
                parameter = nn.Parameter(hollow, weight.requires_grad)
            for other in sharing:
                other._parameters["weight"] = parameter
                other.__class__ = _PACKED[type(other)]
                other.__dict__["_given"] = given

    @property
    def weight(self) -> Tensor:
        """[out, in], a copy."""
        return self._given.read()

    def restore(self) -> nn.Module:
        """Give the weight back to this module and those that share it."""
        self._given.give_back()
        return self

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        return self.restore()._apply(*args, **kwargs)

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.restore()._save_to_state_dict(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.restore()._load_from_state_dict(*args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.restore().__reduce_ex__(protocol)


class PackedLinear(PackedModule, nn.Linear):  # type: ignore[misc,override]
    """An nn.Linear whose weight lies packed."""

    _plain = nn.Linear


class PackedEmbedding(PackedModule, nn.Embedding):  # type: ignore[misc,override]
    """An nn.Embedding whose rows are looked up in the product of the projection it is tied to."""

    _plain = nn.Embedding

    def forward(self, ids: Tensor) -> Tensor:
        """[..., C], the rows ``ids`` (long [...])."""
        rows = self._given.product.rows
        assert rows is not None
        return rows(ids)


_PACKED = {nn.Linear: PackedLinear, nn.Embedding: PackedEmbedding}


def home_of(modules: Tuple[nn.Module, ...]) -> Optional[Product]:
    """The product that holds the weights of these modules, all of them and no others, or None."""
    first = modules[0]
    if not isinstance(first, PackedModule):
        return None
    product, start = first._given.product, 0
    for module in modules:
        if not isinstance(module, PackedModule) or module._given.product is not product:
            return None
        if module._given.rows.start != start:
            return None
        start = module._given.rows.stop
    return product if start == product.size else None


def only_decodes(model: nn.Module) -> bool:
    """Whether nobody will train or save this model: fairseq has made it ready to decode."""
    return bool(getattr(model, "_is_generation_fast", False))
