"""Packed weights in a checkpoint, as ``specdec-convert pack`` stores them (docs/models.md)."""

from typing import Any

import torch
from torch import Tensor, nn

from ..devices import PACKED
from ..memory import joined, packed_source, product_of, replace
from .library import ENVIRONMENT, Library, load, why_not
from .linear import PARTS, STORED_AS, NativeLinear, floats

KEY = "specdec_packed"  # in the checkpoint
VERSION = 1  # of what is stored, the layout of each variant included
REMEDY = "pack its checkpoint again (specdec-convert pack), or decode with the checkpoint"
_MOST = 2**31 - 64


class UnfitError(ValueError):
    """Packed weights that cannot be used here; the message gives the reason and the remedy."""


def packed(model: nn.Module, library: Library, number_format: str) -> dict[str, Any]:
    """The packed weights of a model whose weights were freed."""
    slices: dict[Any, dict[int, list[str]]] = {}
    finite: dict[Any, dict[int, bool]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        held = packed_source(module)
        if held is not None:
            slices.setdefault(held.product, {}).setdefault(held.rows.start, []).append(name)
            finite.setdefault(held.product, {})[held.rows.start] = held.finite
    matrices = []
    for product, names in slices.items():
        starts = sorted(names)
        ends = [*starts[1:], product.size]
        # Projections first.
        modules = [sorted(names[at], key=lambda n: n.endswith("embed_tokens")) for at in starts]
        rows = [end - start for start, end in zip(starts, ends)]
        sound = [finite[product][start] for start in starts]
        for each in (product, product.rounded):
            if each is not None:
                matrices.append(_entry(each, modules, rows, sound))
    header = {"version": VERSION, "variant": library.variant, "number_format": number_format}
    return {**header, "matrices": matrices}


def _entry(
    product: NativeLinear, modules: list[list[str]], rows: list[int], finite: list[bool]
) -> dict[str, Any]:
    known = {"number_format": product.number_format, "stored": product.stored}
    where = {"modules": modules, "rows": rows, "columns": product.width, "finite": finite}
    facts = {"exact": product.exact, "biased": product.bias is not None}
    return {**known, **where, **facts, "parts": product.parts}


def _require(right: bool, what: str) -> None:
    if not right:
        raise UnfitError(f"its packed weights hold {what}; {REMEDY}")


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 < value < _MOST


def check(description: Any) -> None:
    """Look at all of a file's packed weights but the numbers in them. Raises UnfitError: they are
    not what ``packed`` gives, or not for this version."""
    _require(type(description) is dict, "no description")
    if description.get("version") != VERSION:
        raise UnfitError(f"its weights were packed by another version of fairseq_specdec; {REMEDY}")
    _require(type(description.get("variant")) is str, "no variant")
    _require(description.get("number_format") in PACKED, "no number format")
    matrices = description.get("matrices")
    _require(type(matrices) is list and bool(matrices), "no matrix")
    for each in matrices:
        _require(type(each) is dict, "an odd matrix")
        _require(each.get("number_format") in PACKED, "a matrix in no number format")
        _require(each.get("stored") in STORED_AS, "a matrix in no number format")
        modules, rows, finite = (each.get(name) for name in ("modules", "rows", "finite"))
        lists = all(type(one) is list for one in (modules, rows, finite))
        _require(lists and 0 < len(modules) == len(rows) == len(finite), "an odd matrix")
        for names in modules:
            named = type(names) is list and bool(names)
            _require(named and all(type(name) is str for name in names), "a matrix of no module")
        _require(all(map(_is_size, rows)) and _is_size(sum(rows)), "a matrix of odd size")
        _require(_is_size(each.get("columns")), "a matrix of odd size")
        facts = (*finite, each.get("exact"), each.get("biased"))
        _require(all(type(one) is bool for one in facts), "an odd matrix")
        stored = ("fp32", "halves") if each["number_format"] == "fp32" else each["number_format"]
        _require(each["stored"] in stored, "a matrix in two number formats")
        exact = {"fp32": (True,), "bf16": (True, False)}.get(each["number_format"], (False,))
        _require(each["exact"] in exact, "a matrix in two number formats")
        parts = each.get("parts")
        _require(type(parts) is dict and set(parts) <= set(PARTS), "odd parts")
        for name, part in parts.items():
            sound = type(part) is Tensor and part.dtype == PARTS[name] and part.dim() == 1
            _require(sound and part.is_contiguous(), "odd parts")


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
        if any(_shape(module) != (rows, each["columns"]) for module in modules):
            raise ValueError("a weight of another size")
    product = NativeLinear.borrowed(
        library, each["parts"], each["number_format"], size=sum(each["rows"]),
        width=each["columns"], stored=each["stored"], exact=each["exact"],
        bias=_bias(firsts) if each["biased"] else None, dtype=torch.float32,
        packed_as=number_format,
    )  # fmt: skip
    if packed_source(firsts[0]) is not None:
        home = product_of(firsts)
        if home is None or home.rounded or each["number_format"] == "fp32":
            raise ValueError("modules that hold a weight twice")
        home.rounded = product
        return
    others = [module for modules in named[1:] for module in modules]
    wanted = [*firsts[:1], *tied, *others]
    if len(set(wanted)) != len(wanted) or len(others) != len(firsts) - 1:
        raise ValueError("modules that hold a weight twice")
    looked_up = not each["exact"] and any(isinstance(one, nn.Embedding) for one in wanted)
    sources = [getattr(one.weight, "source", None) for one in wanted]
    if looked_up or not all(isinstance(each, Tensor) for each in sources):
        raise ValueError("modules that hold no such weight")
    replace(firsts, product, tied, each["finite"])


def _shape(module: Any) -> Any:
    weight = module._parameters.get("weight")
    return None if weight is None else tuple(weight.shape)


def _bias(modules: list[Any]) -> Tensor | None:
    bias = joined([module.bias for module in modules])
    return None if bias is None else floats(bias).clone()


def number_format_of(model: nn.Module) -> str | None:
    """That a model's weights were packed in by ``specdec-convert pack``; None of others."""
    for held in map(packed_source, model.parameters()):
        if held is not None and held.product.packed_as is not None:
            return held.product.packed_as
    return None
