"""Weights that stay as a checkpoint has them until something packs or needs them."""

import copy
import io

import pytest
import torch
from torch import nn
from toy_hypotheses import chain_layout
from toy_translation import make_sample, sentences, toy_model

from fairseq_specdec.engine.backend import Backend, NativeBackend
from fairseq_specdec.engine.eager.packed_module import PackedLinear, not_finite
from fairseq_specdec.engine.eager.stored_module import StoredEmbedding, StoredLinear, restore, store
from fairseq_specdec.engine.native import library
from fairseq_specdec.engine.transformer import Transformer


class Tied(nn.Module):
    """An embedding tied to a projection, and another product."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        torch.manual_seed(5)
        self.table = nn.Embedding(12, 6)
        self.projection = nn.Linear(6, 12, bias=False)
        self.projection.weight = self.table.weight
        self.inner = nn.Linear(6, 6)
        self.to(dtype)

    def forward(self, ids):
        return self.projection(self.inner(self.table(ids)))


SENTENCES = sentences(5, seed=11)
TOKENS = torch.randint(4, 20, (5, 3), generator=torch.Generator().manual_seed(1))
CHAIN = chain_layout([0] * 5, 3)
IDS = torch.tensor([[3, 1], [0, 11]])


def stored(dtype=torch.float16):
    """(a model whose weights are those of a file in this format, the same model in float32)."""
    saved = Tied(dtype)
    model, plain = Tied(), Tied()
    for parameter in model.parameters():
        parameter.data.zero_()
    store(model)
    model.load_state_dict(saved.state_dict())
    plain.load_state_dict(saved.state_dict())
    return model, plain, saved


def kinds(model):
    return [type(each) for each in (model.table, model.projection, model.inner)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_weights_are_those_of_the_file(dtype):
    model, plain, saved = stored(dtype)
    assert kinds(model) == [StoredEmbedding, StoredLinear, StoredLinear]
    assert model.inner._stored.numbers.data_ptr() == saved.inner.weight.data_ptr()
    for name in ("table", "projection", "inner"):
        assert torch.equal(getattr(model, name).weight, getattr(plain, name).weight)
    assert torch.equal(model(IDS), plain(IDS))
    assert next(model.parameters()).dtype == torch.float32 and not_finite(model) is None
    restore(model)
    assert kinds(model) == [nn.Embedding, nn.Linear, nn.Linear]
    assert model.table.weight is model.projection.weight
    assert torch.equal(model(IDS), plain(IDS))
    assert model.inner.weight.data_ptr() != saved.inner.weight.data_ptr()


@pytest.mark.parametrize(
    "use",
    [
        lambda model: model.state_dict(),
        lambda model: copy.deepcopy(model),
        lambda model: torch.save(model, io.BytesIO()),
        lambda model: model.double(),
        lambda model: model.half(),
    ],
    ids=["save", "copy", "pickle", "double", "half"],
)
def test_what_needs_the_weights_has_them(use):
    model, plain, _ = stored()
    used, wanted = use(model), use(plain)
    assert kinds(model) == [nn.Embedding, nn.Linear, nn.Linear]
    used, wanted = (each if isinstance(each, dict) else None for each in (used, wanted))
    state, expected = model.state_dict() if used is None else used, wanted or plain.state_dict()
    assert list(state) == list(expected)
    assert all(torch.equal(state[name], expected[name]) for name in state)
    assert model.table.weight is model.projection.weight


def test_moving_to_where_it_is_changes_nothing():
    model, _, _ = stored()
    model.to(device="cpu", dtype=torch.float32).float().eval()
    assert kinds(model) == [StoredEmbedding, StoredLinear, StoredLinear]


def test_misfits_are_named_as_ever():
    saved = Tied().state_dict()
    del saved["table.weight"], saved["projection.weight"]
    saved["inner.weight"] = torch.zeros(6, 5)
    saved["inner.more"] = torch.zeros(1)
    messages = []
    for make in (lambda model: model, lambda model: store(model) or model):
        with pytest.raises(RuntimeError) as raised:
            make(Tied()).load_state_dict(saved)
        messages.append(str(raised.value))
    assert messages[0] == messages[1] and "size mismatch for inner.weight" in messages[0]


def test_what_others_hold_too_is_left_alone():
    model = Tied()
    model.third = nn.Bilinear(1, 6, 12, bias=False)
    model.third.weight = model.table.weight
    model.norms = nn.Embedding(3, 2, max_norm=1.0)
    store(model)
    assert kinds(model) == [nn.Embedding, nn.Linear, StoredLinear]
    assert type(model.norms) is nn.Embedding


@pytest.mark.parametrize("number_format", ["fp32", "bf16", "int8", "int7"])
@pytest.mark.parametrize("shape", ["pre_norm", "separate_embeddings"])
def test_they_are_packed_to_the_same_bits(shape, number_format):
    """Freed or not; torch's engine has them in float32."""
    loaded = library.load()
    if loaded is None:
        pytest.skip(library.why_not())
    saved = {name: each.half() for name, each in toy_model(shape).state_dict().items()}
    sample, results = make_sample(SENTENCES), []
    backends = [NativeBackend(loaded, number_format, frees=free) for free in (False, True)]
    backends += [Backend()] if number_format == "fp32" else []
    for backend in backends:
        for stores in (False, True):
            model = copy.deepcopy(toy_model(shape))
            if stores:
                store(model)
            model.load_state_dict(saved)
            weights = Transformer.read(model, "", backend)
            with torch.no_grad():
                out = weights.encode(sample["net_input"])
                session = weights.open(out, 20, 8)
                logits = session.logits(session.run(TOKENS, CHAIN))
            results.append((out["encoder_out"][0], logits))
            left = {type(each) for each in model.modules()}
            assert not left & {StoredLinear, StoredEmbedding}
            assert (PackedLinear in left) == (backend.frees and backend.name == "native")
        assert all(map(torch.equal, *results[-2:]))
