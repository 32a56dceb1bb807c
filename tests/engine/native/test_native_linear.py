"""Products that hold the weights of modules: rows, sharing, and weights that are gone."""

import copy

import pytest
import torch
from torch import nn
from toy_translation import toy_model

from fairseq_specdec.engine.backend import NativeBackend
from fairseq_specdec.engine.devices import PACKED
from fairseq_specdec.engine.memory import packed_source, replace
from fairseq_specdec.engine.native.linear import NativeLinear
from fairseq_specdec.engine.state import pointer
from fairseq_specdec.engine.transformer import Transformer


@pytest.mark.parametrize("size, width", [(1, 1), (33, 130), (70, 65)])
@pytest.mark.parametrize("kind", ["fp32", "halves", "bf16"])
def test_rows_are_those_of_the_weight(loaded, size, width, kind):
    torch.manual_seed(size)
    weight = torch.randn(size, width)
    if kind == "halves":
        weight = weight.half().float()
    if kind == "bf16":
        weight = weight.bfloat16()
    product = NativeLinear(loaded, weight, None, "bf16" if kind == "bf16" else "fp32")
    ids = torch.randint(size, (3, 5))
    rows = product.rows(ids)
    assert rows.dtype == weight.dtype and torch.equal(rows, weight[ids])
    assert torch.equal(product.rows(ids.t()), weight[ids.t()])
    assert torch.equal(product.rows(torch.arange(size)), weight)
    for wrong in (-1, size):
        with pytest.raises(ValueError, match="row index out of range"):
            product.rows(torch.tensor([0, wrong]))


@pytest.mark.parametrize("number_format", ["bf16", "int8", "int7"])
def test_rounded_weights_are_not_read_back(loaded, number_format):
    linear = nn.Linear(24, 8)
    product = NativeLinear.of(loaded, (linear,), number_format)
    replace([linear], product)
    uses = [
        lambda: linear.weight.detach(),
        lambda: linear(torch.zeros(1, 24)),
        lambda: NativeLinear.of(loaded, (linear,), "fp32"),
    ]
    for use in uses:
        with pytest.raises(ValueError, match=f"exists in {number_format} alone .*load the check"):
            use()


def test_a_second_reading_shares_the_products(loaded):
    for number_format in PACKED:
        model = copy.deepcopy(toy_model("pre_norm"))
        backend = NativeBackend(loaded, number_format, frees=True)
        for _ in range(2):
            Transformer.read(model, backend)
            first = model.decoder.layers[0].fc1
            product = packed_source(first).product
            assert NativeLinear.of(loaded, (first,), number_format) is product
        first.bias.data += 1.0
        if product.exact:
            changed = NativeLinear.of(loaded, (first,), number_format)
            assert torch.equal(changed(torch.zeros(1, first.in_features))[0], first.bias)


FORMATS = {"fp32": 4, "halves": 2, "bf16": 2, "int8": 1, "int7": 1}


def product_of(loaded, kind, size=70, width=65):
    torch.manual_seed(size)
    weight = torch.randn(size, width)
    weight = weight.half() if kind == "halves" else weight
    return NativeLinear(loaded, weight, torch.randn(size), "fp32" if kind == "halves" else kind)


def borrowed(loaded, product, parts=None, **other):
    known = {name: getattr(product, name) for name in ("size", "width", "stored", "exact", "bias")}
    known.update(other)
    return NativeLinear.borrowed(
        loaded, parts or product.parts, product.number_format, dtype=torch.float32, **known
    )


@pytest.mark.parametrize("kind", FORMATS)
def test_a_borrowed_product_has_the_same_bits(loaded, kind):
    product, x = product_of(loaded, kind), torch.randn(5, 65)
    copied = {name: part.clone() for name, part in product.parts.items()}
    assert 4 * copied["words"].numel() >= 70 * 65 * FORMATS[kind]
    other = borrowed(loaded, product, copied)
    assert other.stored == product.stored and other.nbytes == product.nbytes
    assert torch.equal(other(x), product(x))
    if product.exact:
        every = torch.arange(product.size)
        assert torch.equal(other.rows(every), product.rows(every))
    copied["bias"] += 1  # it is no copy of the parts
    assert not torch.equal(other(x), product(x))


@pytest.mark.parametrize("kind", FORMATS)
def test_parts_of_another_product_are_refused(loaded, kind):
    product = product_of(loaded, kind)
    parts = product.parts
    others = [dict(size=200), dict(width=80), dict(size=0), dict(width=-1)]
    others += [] if "int" in product.stored else [dict(stored="int8")]
    for other in others:
        with pytest.raises(ValueError, match="matrix"):
            borrowed(loaded, product, **other)
    for name in parts:
        others = {each: part for each, part in parts.items() if each != name}
        with pytest.raises(ValueError, match="packed matrix"):
            borrowed(loaded, product, others)
        with pytest.raises(ValueError, match="packed matrix"):
            borrowed(loaded, product, {**parts, name: parts[name][:-1]})
        with pytest.raises(TypeError, match="reads"):
            borrowed(loaded, product, {**parts, name: parts[name].double()})


def test_only_tensors_in_order_have_an_address():
    whole = torch.zeros(3, 4)
    assert pointer(whole[1:]) == whole.data_ptr() + 16 and pointer(None) is None
    for tensor in (whole.double(), whole.t(), whole[:, :2], whole.to("meta")):
        with pytest.raises(TypeError, match="reads torch.float32 row by row on the CPU, not"):
            pointer(tensor)


def test_rows_of_another_width_are_refused(loaded):
    product = NativeLinear(loaded, torch.randn(3, 8), None, "fp32")
    with pytest.raises(ValueError, match="a product of 8 columns and rows of 4 numbers"):
        product(torch.randn(4, 4))
