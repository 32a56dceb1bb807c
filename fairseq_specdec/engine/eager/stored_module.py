"""Modules whose weights stay as a checkpoint has them until they are packed.

Such a weight takes no memory of its own where the file is mapped, and half of float32's where the
file has half precision.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class _StoredWeight:
    """A weight of one module or of several that share it. ``numbers``: [out, in], in the file's
    number format. ``modules``: that hold it."""

    def __init__(self, numbers: Tensor, modules: list[Any]) -> None:
        self.numbers = numbers
        self.modules = modules


class StoredModule(nn.Module):
    """A module whose weight is in a checkpoint's number format.

    Reading ``weight`` converts it, so that the model's own ``forward`` works, slowly. Saving,
    copying, moving and converting make the module an ordinary one first. ``parameters()`` has one
    NaN in the weight's shape.
    """

    _stored: _StoredWeight

    @property
    def weight(self) -> Tensor:
        """[out, in], in the module's own number format."""
        return self._stored.numbers.to(self._parameters["weight"].dtype)  # type: ignore[union-attr]

    def _restore(self) -> None:
        """Give all modules that share the weight a parameter of their own memory again."""
        stored, held = self._stored, self._parameters["weight"]
        assert held is not None
        with torch.inference_mode(False):
            numbers = stored.numbers.to(held.dtype, copy=True).contiguous()
            weight = nn.Parameter(numbers, held.requires_grad)
        for each in stored.modules:
            if each.__dict__.get("_stored") is stored:
                del each.__dict__["_stored"]
                each.__class__ = _PLAIN[type(each)]
                each._parameters["weight"] = weight

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        probe = torch.zeros(1, dtype=self._parameters["weight"].dtype)  # type: ignore[union-attr]
        if fn(probe) is probe:  # to where and what it is already
            return self
        self._restore()
        return self._apply(fn, *args, **kwargs)

    def _save_to_state_dict(self, *args: Any) -> None:
        self._restore()
        self._save_to_state_dict(*args)

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._restore()
        return self.__reduce_ex__(protocol)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        """As torch's, but that the weight is not copied."""
        key, held = prefix + "weight", self._parameters["weight"]
        weight = state_dict.get(key)
        assert held is not None
        if not isinstance(weight, Tensor) or weight.shape != held.shape:
            super()._load_from_state_dict(state_dict, prefix, *rest)  # which says so
            return
        self._stored.numbers = weight.detach()
        others = {name: state_dict[name] for name in state_dict if name.startswith(prefix)}
        del others[key]
        self._parameters["weight"] = None
        super()._load_from_state_dict(others, prefix, *rest)
        self._parameters["weight"] = held


class StoredLinear(StoredModule, nn.Linear):  # type: ignore[misc,override]
    """An nn.Linear whose weight is stored."""


class StoredEmbedding(StoredModule, nn.Embedding):  # type: ignore[misc,override]
    """An nn.Embedding whose weight is stored."""

    def forward(self, ids: Tensor) -> Tensor:
        rows = F.embedding(ids, self._stored.numbers)
        return rows.to(self._parameters["weight"].dtype)  # type: ignore[union-attr]


STORED: dict[Any, Any] = {nn.Linear: StoredLinear, nn.Embedding: StoredEmbedding}
_PLAIN: dict[Any, Any] = {stored: plain for plain, stored in STORED.items()}


def store(model: nn.Module) -> None:
    """Free the weights of a model in float32 that a checkpoint is loaded into next.

    Those of nn.Linear and nn.Embedding are then taken from the checkpoint as they are. Until then
    they are NaN. A weight that another kind of module holds too is left alone.
    """
    held: dict[int, list[Any]] = {}
    others = set()
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is None:
                continue
            plain = name == "weight" and type(module) in STORED
            here = parameter.dtype == torch.float32 and parameter.device.type == "cpu"
            if plain and here and getattr(module, "max_norm", None) is None:
                held.setdefault(id(parameter), []).append(module)
            else:
                others.add(id(parameter))
    for key, modules in held.items():
        if key not in others:
            _store(modules)


def _store(modules: list[Any]) -> None:
    weight = modules[0]._parameters["weight"]
    placeholder = torch.full((1,), float("nan")).expand(weight.shape)
    parameter = nn.Parameter(placeholder, weight.requires_grad)
    stored = _StoredWeight(placeholder, modules)
    for module in modules:
        module._parameters["weight"] = parameter
        module.__class__ = STORED[type(module)]
        module.__dict__["_stored"] = stored


def restore(model: Any) -> None:
    """Give every module of a model, or of a part of one, a weight in memory of its own again."""
    modules = model.modules() if isinstance(model, nn.Module) else ()
    for module in list(modules):
        if isinstance(module, StoredModule):
            module._restore()


def stored_numbers(module: Any) -> Tensor:
    """[out, in], a module's weight in the number format that it is stored in, not copied."""
    stored = module.__dict__.get("_stored")
    numbers: Tensor = module.weight if stored is None else stored.numbers
    return numbers.detach()
