"""Weights that are held in a checkpoint's file, or packed in the engine: what else uses a model
sees no difference."""

import copy
import io

import pytest
import torch
from torch import nn
from toy_hypotheses import chain_layout
from toy_strategies import TOYS, decode, flags, make_generator, stock, tokens
from toy_translation import assert_diverse, make_sample, sentences, toy_model

from fairseq_specdec.engine.backend import Backend, NativeBackend
from fairseq_specdec.engine.memory import (
    HeldWeight,
    not_finite,
    packed_source,
    replace,
    restore,
    store,
)
from fairseq_specdec.engine.native import library
from fairseq_specdec.engine.native.linear import NativeLinear
from fairseq_specdec.engine.transformer import Transformer

packs = pytest.mark.skipif(library.load() is None, reason="no native engine")


class Tied(nn.Module):
    """An embedding tied to a projection, and another product."""

    def __init__(self, dtype=torch.float32, tied=True):
        super().__init__()
        torch.manual_seed(5)
        self.embed_tokens = nn.Embedding(12, 6)
        self.output_projection = nn.Linear(6, 12, bias=False)
        if tied:
            self.output_projection.weight = self.embed_tokens.weight
        self.inner = nn.Linear(6, 6)
        self.to(dtype)

    def forward(self, ids):
        return self.output_projection(self.inner(self.embed_tokens(ids)))


SENTENCES = sentences(5, seed=11)
TOKENS = torch.randint(4, 20, (5, 3), generator=torch.Generator().manual_seed(1))
CHAIN = chain_layout([0] * 5, 3)
IDS = torch.tensor([[3, 1], [0, 11]])


def in_file(dtype=torch.float16):
    """(a model whose weights are those of a file in this format, the same model in float32, the
    file's)."""
    saved, model, plain = Tied(dtype), Tied(), Tied()
    for parameter in model.parameters():
        parameter.data.zero_()
    store(model)
    model.load_state_dict(saved.state_dict())
    plain.load_state_dict(saved.state_dict())
    return model, plain, saved


def in_products():
    """(a model whose weights are packed where they can be, the same model)."""
    plain = Tied(tied=False)
    model = copy.deepcopy(plain)
    for module in (model.inner, model.output_projection):
        packed(module)
    return model, plain


def packed(*modules):
    """Their product, which alone holds their weights."""
    product = NativeLinear.of(library.load(), modules, "fp32")
    replace(modules, product)
    return product


def held(*modules):
    return [type(module.weight) is HeldWeight for module in modules]


def all_held(model):
    return held(model.embed_tokens, model.output_projection, model.inner)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_weights_are_those_of_the_file(dtype):
    model, plain, saved = in_file(dtype)
    assert all_held(model) == [True] * 3
    assert model.inner.weight.source.data_ptr() == saved.inner.weight.data_ptr()
    assert model.embed_tokens.weight is model.output_projection.weight
    for mine, wanted in zip(model.parameters(), plain.parameters()):
        assert torch.equal(mine, wanted) and mine.dtype == torch.float32
    assert torch.equal(model(IDS), plain(IDS))
    assert not_finite(model) is None
    restore(model)
    assert all_held(model) == [False] * 3
    assert model.embed_tokens.weight is model.output_projection.weight
    assert torch.equal(model(IDS), plain(IDS))
    assert model.inner.weight.data_ptr() != saved.inner.weight.data_ptr()


def pickled(model):
    stream = io.BytesIO()
    torch.save(model, stream)
    stream.seek(0)
    return torch.load(stream, weights_only=False)


def changed(model):
    with torch.no_grad():
        model.inner.weight.mul_(2.0)
        model.embed_tokens.weight.data[3] = 1.0
        model.output_projection.weight[4] = 0.5


USES = {
    "save": lambda model: model.state_dict(),
    "copy": copy.deepcopy,
    "pickle": pickled,
    "double": lambda model: model.double(),
    "half": lambda model: model.half(),
    "write": changed,
    "load": lambda model: model.load_state_dict(
        {name: 2 * each for name, each in Tied(tied=False).state_dict().items()}
    ),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("where", ["file", pytest.param("products", marks=packs)])
def test_what_needs_the_weights_has_them(use, where):
    model, plain = in_file()[:2] if where == "file" else in_products()
    ties = plain.embed_tokens.weight is plain.output_projection.weight
    for used, wanted in ((USES[use](model), USES[use](plain)), (model, plain)):
        if isinstance(wanted, nn.Module):
            assert (used.embed_tokens.weight is used.output_projection.weight) == ties
            used, wanted = used.state_dict(), wanted.state_dict()
        if isinstance(wanted, dict):
            assert list(used) == list(wanted)
            for name in used:
                assert torch.equal(used[name], wanted[name]), name
                assert used[name].dtype == wanted[name].dtype


@packs
def test_weights_are_freed_and_read_back():
    torch.manual_seed(3)
    modules = [nn.Linear(24, size) for size in (16, 8, 40)]
    before = copy.deepcopy(modules)
    product = packed(*modules)
    assert held(*modules) == [True] * 3
    x = torch.randn(5, 24)
    for module, old in zip(modules, before):
        assert torch.equal(module.weight, old.weight) and torch.equal(module(x), old(x))
        with torch._C.DisableTorchFunctionSubclass():
            assert module.weight.untyped_storage().nbytes() == 4  # one number
    wanted = torch.cat([old(x) for old in before], 1).detach()
    torch.testing.assert_close(product(x), wanted)
    assert packed(*modules) is product
    for others in (modules[:1], modules[:2], modules[1:], modules[::-1]):
        other = packed(*others)
        assert other is not product
        torch.testing.assert_close(other(x), torch.cat([m(x) for m in others], 1).detach())


@packs
@pytest.mark.parametrize("case", ["gad-attached", "bild-early-exit"])
def test_released_models_decode_as_before_in_both_engines(case):
    """fairseq's attention reads weights past ``forward``; it must find them."""
    models = [copy.deepcopy(TOYS[case].verifier())]
    size = sum(p.numel() for p in models[0].parameters())
    sample, args = make_sample(sentences(12, seed=77)), flags(max_len_b=20)
    wanted = tokens(stock(models, sample, args))
    assert_diverse(wanted)
    generator = make_generator(case, args, models, free_unpacked=True)
    assert tokens(decode(generator, sample)) == wanted
    layers = [m for n, m in models[0].named_modules() if type(m) is nn.Linear and ".layers." in n]
    assert all(map(packed_source, layers)) and len(layers) >= 2 * 6 + 2 * 10
    assert sum(p.numel() for p in models[0].parameters()) == size
    assert tokens(stock(models, sample, args)) == wanted
    generator.refresh()
    assert tokens(decode(generator, sample)) == wanted
    for backend in ("auto", "torch"):
        again = make_generator(case, args, models, free_unpacked=True, backend=backend)
        assert tokens(decode(again, sample)) == wanted


@pytest.mark.parametrize(
    "shape, number_format", [("pre_norm", "fp32"), ("separate_embeddings", "int8")]
)
def test_they_are_packed_to_the_same_bits(shape, number_format, with_library):
    """Freed or not; torch's engine has them in float32."""
    saved = {name: each.half() for name, each in toy_model(shape).state_dict().items()}
    sample, results = make_sample(SENTENCES), []
    backends = [NativeBackend(with_library, number_format, frees=free) for free in (False, True)]
    backends += [Backend()] if number_format == "fp32" else []
    for backend in backends:
        for stores in (False, True):
            model = copy.deepcopy(toy_model(shape))
            if stores:
                store(model)
            model.load_state_dict(saved)
            weights = Transformer.read(model, backend)
            with torch.no_grad():
                out = weights.encode(sample["net_input"])
                session = weights.open(out, 20, 8)
                logits = session.logits(session.run(TOKENS, CHAIN))
            results.append((out["encoder_out"][0], logits))
            left = [each for each in model.parameters() if type(each) is HeldWeight]
            assert all(map(packed_source, left))
            assert bool(left) == (backend.name == "native" and backend.frees)
        assert all(map(torch.equal, *results[-2:]))
