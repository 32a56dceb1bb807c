"""Products that hold the weights of modules: rows, sharing, and weights that are gone."""

import copy

import pytest
import torch
from torch import nn
from toy_hypotheses import chain_layout
from toy_strategies import decode, make_generator, toys
from toy_translation import SHAPES, make_sample, sentences, toy_model

from fairseq_specdec.engine.backend import NativeBackend
from fairseq_specdec.engine.devices import PACKED
from fairseq_specdec.engine.memory import packed_source, replace
from fairseq_specdec.engine.native.linear import NativeLinear
from fairseq_specdec.engine.state import pointer
from fairseq_specdec.engine.transformer import Transformer

SENTENCES = sentences(5, seed=11)


def chain(width):
    rows = len(SENTENCES)
    return chain_layout([0] * rows, width)


@pytest.mark.parametrize("size, width", [(1, 1), (7, 3), (40, 24), (33, 130), (70, 65)])
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
    assert torch.equal(product.unpacked(), weight)
    for wrong in (-1, size):
        with pytest.raises(ValueError, match="row index out of range"):
            product.rows(torch.tensor([0, wrong]))


@pytest.mark.parametrize("number_format", ["bf16", "int8", "int7"])
def test_rounded_weights_are_not_read_back(loaded, number_format):
    linear = nn.Linear(24, 8)
    product = NativeLinear.of(loaded, (linear,), number_format)
    assert product.rows is None
    replace([linear], product)
    uses = [
        lambda: linear.weight.detach(),
        lambda: linear(torch.zeros(1, 24)),
        lambda: NativeLinear.of(loaded, (linear,), "fp32"),
    ]
    for use in uses:
        with pytest.raises(RuntimeError, match=f"exists in {number_format} alone .*load the check"):
            use()


@pytest.mark.parametrize("number_format", PACKED)
@pytest.mark.parametrize("shape", ["pre_norm", "separate_embeddings"])
def test_freed_models_give_the_bits_of_kept_ones(loaded, shape, number_format):
    model, sample = toy_model(shape), make_sample(SENTENCES)
    tokens, results = torch.randint(4, 20, (len(SENTENCES), 3)), []
    for free in (False, True):
        mine = copy.deepcopy(model)
        backend = NativeBackend(loaded, number_format, frees=free)
        weights = Transformer.read(mine, backend)
        with torch.no_grad():
            out = weights.encode(sample["net_input"])
            session = weights.open(out, 20, 8)
            embedded = session.embedding(tokens, chain(3), session.positions)
            logits = session.logits(session.run(tokens, chain(3)))
        results.append((out["encoder_out"][0], embedded, logits))
    assert all(torch.equal(kept, gone) for kept, gone in zip(*results))
    left = [p for p in mine.parameters() if p.dim() == 2 and not packed_source(p)]
    assert len(left) == (0 if SHAPES[shape].get("share_all_embeddings", True) else 2)


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


@pytest.mark.parametrize("number_format", ["bf16", "int8", "int7"])
@pytest.mark.parametrize("case", ["gad-attached", "blockwise", "bild-early-exit"])
def test_freed_models_decode_as_kept_ones(case, number_format, built):
    """In formats that round: the bits of every score, again after the weights were read again."""
    sample, scores = make_sample(sentences(12, seed=77)), []
    for free in (False, True):
        models = [copy.deepcopy(toys(case).verifier())]
        generator = make_generator(
            case, models=models, free_unpacked=free, backend="native", verifier_dtype=number_format
        )
        for _ in range(2):
            outputs = decode(generator, sample)
            scores.append([h["positional_scores"].tolist() for h in outputs])
            generator.refresh()
    assert all(each == scores[0] for each in scores[1:])


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
        assert torch.equal(other.unpacked(), product.unpacked())
    copied["bias"] += 1  # it is no copy of the parts
    assert not torch.equal(other(x), product(x))


@pytest.mark.parametrize("kind", FORMATS)
def test_parts_of_another_product_are_refused(loaded, kind):
    product = product_of(loaded, kind)
    parts = product.parts
    for other in (
        dict(size=200),
        dict(width=80),
        dict(size=0),
        dict(width=-1),
        dict(stored="int8"),
    ):
        if other != {"stored": product.stored} and (kind != "int7" or "stored" not in other):
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


def test_a_second_reading_shares_the_rounded_vocabulary(loaded):
    model = copy.deepcopy(toy_model("pre_norm"))
    first, second = (
        Transformer.read(model, NativeBackend(loaded, "int8", frees=True)).decoder for _ in range(2)
    )
    words, size = first.stack.words, first.stack.width
    assert first.stack._products[-1].size == words and first.stack._products[-1].width == size
    assert first.stack._products[-1] is second.stack._products[-1]


def test_tensors_in_order_have_an_address():
    tensor = torch.zeros(3, 4)
    assert pointer(tensor) == tensor.data_ptr()
    assert pointer(tensor[1:]) == tensor.data_ptr() + 16
    assert pointer(torch.ones(2, dtype=torch.bool), torch.bool) and pointer(None) is None


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(3, 4, dtype=torch.float64),
        torch.zeros(3, 4).t(),
        torch.zeros(3, 4)[:, :2],
        torch.zeros(3, 4, device="meta"),
    ],
    ids=["format", "columns", "gaps", "device"],
)
def test_others_are_refused(tensor):
    with pytest.raises(TypeError, match="reads torch.float32 row by row on the CPU, not"):
        pointer(tensor)
