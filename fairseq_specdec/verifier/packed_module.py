"""nn.Linear modules whose weights lie packed in the engine's products, and nowhere else."""

from __future__ import annotations

from typing import Any, Optional, Protocol, Sequence, Tuple

import torch
from torch import Tensor, nn


class Product(Protocol):
    """What keeps the weights of modules, side by side."""

    size: int

    def unpacked(self) -> Tensor:
        """[size, in]."""


class PackedModule(nn.Linear):
    """An nn.Linear that has given its weight to a packed product.

    To read ``weight`` unpacks it, so that the model's own ``forward``, and with it whatever fairseq
    does with a model, works as before, more slowly. Saving, copying, moving and converting put the
    weight back first. In ``parameters()`` stands one NaN in the weight's shape.
    """

    _product: Product
    _rows: slice

    @staticmethod
    def replace(modules: Sequence[nn.Module], product: Product) -> None:
        """Let the modules give their weights to ``product``, which holds them side by side.

        A weight that another module holds too stays as it is there, and in memory. Modules of any
        other class than nn.Linear itself are left alone.
        """
        if any(type(module) is not nn.Linear for module in modules):
            return
        start = 0
        for module in modules:
            weight = module.weight
            rows = slice(start, start + weight.size(0))
            start = rows.stop
            with torch.inference_mode(False):
                hollow = weight.new_full((1,), float("nan")).expand(weight.shape)
                module._parameters["weight"] = nn.Parameter(hollow, weight.requires_grad)
            module.__class__ = PackedModule
            module.__dict__.update(_product=product, _rows=rows)

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """[out, in], a copy."""
        return self._product.unpacked()[self._rows]

    def restore(self) -> nn.Linear:
        """Make this an nn.Linear again; the product keeps its weight too."""
        with torch.inference_mode(False):
            weight = nn.Parameter(self.weight.clone(), self._parameters["weight"].requires_grad)
        for name in ("_product", "_rows"):
            del self.__dict__[name]
        self.__class__ = nn.Linear  # type: ignore[assignment]
        self._parameters["weight"] = weight
        return self

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        return self.restore()._apply(*args, **kwargs)

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.restore()._save_to_state_dict(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.restore()._load_from_state_dict(*args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.restore().__reduce_ex__(protocol)


def home_of(modules: Tuple[nn.Module, ...]) -> Optional[Product]:
    """The product that holds the weights of these modules, all of them and no others, or None."""
    first = modules[0]
    if not isinstance(first, PackedModule):
        return None
    product, start = first._product, 0
    for module in modules:
        if not isinstance(module, PackedModule) or module._product is not product:
            return None
        if module._rows.start != start:
            return None
        start = module._rows.stop
    return product if start == product.size else None


def given_away(model: nn.Module) -> bool:
    """Whether nobody will train or save this model: fairseq has made it ready to decode."""
    return bool(getattr(model, "_is_generation_fast", False))
