"""Packed weights in a checkpoint, as ``specdec-convert pack`` stores them (docs/models.md)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..devices import PACKED
from ..memory import joined, packed_source, product_of, replace
from ..state import floats
from .library import ENVIRONMENT, Library, load, why_not
from .linear import PARTS, NativeLinear

KEY = "specdec_packed"  # in the checkpoint
VERSION = 1  # of what is stored, the layout of each variant included
REMEDY = "pack its checkpoint again (specdec-convert pack), or decode with the checkpoint"
_MOST = 2**31 - 64


class UnfitError(ValueError):
    """Packed weights that cannot be used here; the message gives the reason and the remedy."""


def packed(model: nn.Module, library: Library, number_format: str) -> dict[str, Any]:
    """The packed weights of a model whose weights were freed."""
    slices: dict[NativeLinear, dict[int, list[str]]] = {}  # names of modules, by their first row
    for name, module in model.named_modules(remove_duplicate=False):
        held = packed_source(module)
        if held is not None:
            slices.setdefault(held.product, {}).setdefault(held.rows.start, []).append(name)
    matrices: list[dict[str, Any]] = []
    for product, parts in slices.items():
        starts = sorted(parts)
        ends = [*starts[1:], product.size]
        where = {
            # Projections first.
            "modules": [
                sorted(parts[at], key=lambda n: n.endswith("embed_tokens")) for at in starts
            ],
            "rows": [end - start for start, end in zip(starts, ends)],
            "columns": product.width,
        }
        for each in (product, *product.others):
            form = {"number_format": each.number_format, "stored": each.stored}
            facts = {"exact": each.exact, "biased": each.bias is not None, "parts": each.parts}
            matrices.append({**form, **where, **facts})
    header = {"version": VERSION, "variant": library.variant, "number_format": number_format}
    return {**header, "matrices": matrices}


def check(description: Any) -> None:
    """Look at all of a file's packed weights but the numbers in them. Raises UnfitError: they are
    not what ``packed`` gives, or not for this version."""
    known = type(description) is dict
    if known and description.get("version") != VERSION:
        raise UnfitError(f"its weights were packed by another version of fairseq_specdec; {REMEDY}")
    matrices = description.get("matrices") if known else None
    if (
        not _is_list(matrices, _is_matrix)
        or type(description.get("variant")) is not str
        or description.get("number_format") not in PACKED
    ):
        raise UnfitError(f"its packed weights are not as they were written; {REMEDY}")


def _is_matrix(each: Any) -> bool:
    """Whether it is a matrix of ``packed``, whatever its numbers."""
    if type(each) is not dict or each.get("number_format") not in PACKED:
        return False
    get: Any = each.get
    number_format, exact, parts = get("number_format"), get("exact"), get("parts")
    modules, rows = get("modules"), get("rows")
    return (
        each.get("stored") in (("fp32", "halves") if number_format == "fp32" else (number_format,))
        and _is_list(modules, lambda names: _is_list(names, lambda name: type(name) is str))
        and _is_list(rows, _is_size)
        and len(modules) == len(rows)
        and _is_size(sum(rows))
        and _is_size(each.get("columns"))
        and type(each.get("biased")) is type(exact) is bool
        and exact in {"fp32": (True,), "bf16": (True, False)}.get(number_format, (False,))
        and type(parts) is dict
        and all(name in PARTS and _is_part(part, PARTS[name]) for name, part in parts.items())
    )


def _is_list(value: Any, holds: Callable[[Any], bool]) -> bool:
    return type(value) is list and bool(value) and all(map(holds, value))


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 < value < _MOST


def _is_part(part: Any, dtype: torch.dtype) -> bool:
    flat = type(part) is Tensor and part.dtype == dtype and part.dim() == 1
    return flat and part.is_contiguous()


def hollow(description: dict[str, Any]) -> dict[str, Tensor]:
    """A tensor of NaN, of one number in memory, for each weight that is packed; by its name."""
    weights = {}
    for each in description["matrices"]:
        for names, rows in zip(each["modules"], each["rows"]):
            nan = torch.full((1,), float("nan")).expand(rows, each["columns"])
            weights.update({f"{name}.weight": nan for name in names})
    return weights


def attach(model: nn.Module, description: dict[str, Any]) -> None:
    """Give a model its packed weights, in the memory that they are in. Raises UnfitError: they are
    for another processor or model."""
    library = load()
    if library is None:
        raise UnfitError(f"its weights are packed for the native engine: {why_not()}")
    if library.variant != description["variant"]:
        raise UnfitError(
            f"its weights are packed for {description['variant']}, and this process runs "
            f"{library.variant}; {REMEDY}, or set {ENVIRONMENT} where this processor has it"
        )
    try:
        for each in description["matrices"]:
            _attach(model, library, each, description["number_format"])
    except (AttributeError, ValueError, TypeError) as error:
        raise UnfitError(f"its packed weights do not fit its model ({error}); {REMEDY}") from error


def _attach(model: nn.Module, library: Library, each: dict[str, Any], number_format: str) -> None:
    named = [[model.get_submodule(name) for name in names] for names in each["modules"]]
    firsts: list[Any] = [modules[0] for modules in named]
    tied = list(dict.fromkeys(module for module in named[0] if module is not firsts[0]))
    for modules, rows in zip(named, each["rows"]):
        weights = [module._parameters.get("weight") for module in modules]
        if any(getattr(one, "shape", None) != (rows, each["columns"]) for one in weights):
            raise ValueError("a weight of another size")
    bias = joined([module.bias for module in firsts]) if each["biased"] else None
    product = NativeLinear.borrowed(
        library, each["parts"], each["number_format"], size=sum(each["rows"]),
        width=each["columns"], stored=each["stored"], exact=each["exact"],
        bias=None if bias is None else floats(bias).clone(), dtype=torch.float32,
        packed_as=number_format,
    )  # fmt: skip
    if packed_source(firsts[0]) is not None:
        home = product_of(firsts)
        held = () if home is None else (home, *home.others)
        if not held or each["number_format"] in ("fp32", *(one.number_format for one in held)):
            raise ValueError("modules that hold a weight twice")
        home.others += (product,)
        return
    others = [module for modules in named[1:] for module in modules]
    wanted = [*firsts[:1], *tied, *others]
    if len(set(wanted)) != len(wanted) or len(others) != len(firsts) - 1:
        raise ValueError("modules that hold a weight twice")
    looked_up = not each["exact"] and any(isinstance(one, nn.Embedding) for one in wanted)
    sources = [getattr(one.weight, "source", None) for one in wanted]
    if looked_up or not all(isinstance(each, Tensor) for each in sources):
        raise ValueError("modules that hold no such weight")
    replace(firsts, product, tied)


def number_format_of(model: nn.Module) -> str | None:
    """That a model's weights were packed in by ``specdec-convert pack``; None of others."""
    for held in map(packed_source, model.parameters()):
        packed_as: str | None = None if held is None else held.product.packed_as
        if packed_as is not None:
            return packed_as
    return None


def lost(model: nn.Module, number_format: str) -> bool:
    """Whether a weight of a model is neither packed in this format nor known exactly."""
    sources = filter(None, map(packed_source, model.parameters()))
    forms = ((held.product, *held.product.others) for held in sources)
    return not all(any(f.exact or f.number_format == number_format for f in fs) for fs in forms)
