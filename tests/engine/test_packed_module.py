"""Models whose weights lie packed in the engine: what else uses them sees no difference."""

import copy
import io

import pytest
import torch
from torch import nn
from toy_strategies import decode, flags, make_generator, stock, tokens, toys
from toy_translation import assert_diverse, make_sample, sentences

from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.engine.eager import linear
from fairseq_specdec.engine.eager.linear import Linear
from fairseq_specdec.engine.eager.packed_module import PackedLinear, PackedModule
from fairseq_specdec.engine.eager.vocabulary import vocabulary_product

pytestmark = pytest.mark.skipif(
    not linear._can_prepack(torch.zeros(1, 1)), reason="this torch packs nothing"
)


@pytest.fixture(autouse=True)
def everything_packed(monkeypatch):
    monkeypatch.setattr(linear, "PACKED_FROM", 0)


def three(width=24):
    torch.manual_seed(3)
    return [nn.Linear(width, size, bias=True) for size in (16, 8, 40)]


def released(modules):
    return [type(module) for module in modules] == [PackedLinear] * len(modules)


def test_weights_are_freed_and_read_back():
    modules = three()
    before = copy.deepcopy(modules)
    product = Linear.of(*modules, free_unpacked=True)
    assert released(modules) and product.packed
    for module, old in zip(modules, before):
        assert torch.equal(module.weight, old.weight)
        (hollow,) = [p for p in module.parameters() if p.shape == old.weight.shape]
        assert hollow.isnan().all() and len(set(hollow.stride())) == 1  # one number in memory
        x = torch.randn(3, 24)
        assert torch.equal(module(x), old(x))
    x = torch.randn(5, 24)
    wanted = torch.cat([old(x) for old in before], 1).detach()
    torch.testing.assert_close(product(x), wanted)


def test_without_release_nothing_changes():
    modules = three()
    Linear.of(*modules)
    assert all(type(module) is nn.Linear for module in modules)


def test_the_same_products_are_made_once():
    modules = three()
    product = Linear.of(*modules, free_unpacked=True)
    assert Linear.of(*modules) is product
    for others in (modules[:1], modules[:2], modules[1:], modules[::-1]):
        other = Linear.of(*others, free_unpacked=True)
        assert other is not product
        x = torch.randn(2, 24)
        torch.testing.assert_close(other(x), torch.cat([m(x) for m in others], 1).detach())
    assert Linear.of(*modules) is product


@pytest.mark.parametrize(
    "use",
    [
        lambda model: model.double(),
        lambda model: model.state_dict(),
        lambda model: model.load_state_dict(torch.nn.Sequential(*three()).state_dict()),
        lambda model: copy.deepcopy(model),
        lambda model: torch.save(model, io.BytesIO()),
    ],
    ids=["convert", "save", "load", "copy", "pickle"],
)
def test_freed_weights_stay_freed(use):
    """A model that is saved, moved or copied without its weights would be another one."""
    model = nn.Sequential(*three())
    Linear.of(*model, free_unpacked=True)
    with pytest.raises(RuntimeError, match="were freed .*; load the checkpoint .*--keep-weights"):
        use(model)
    assert released(list(model))


def test_a_tied_weight_stays_with_the_other_module():
    embedding, projection = nn.Embedding(16, 24), nn.Linear(24, 16, bias=False)
    projection.weight = embedding.weight
    Linear.of(projection, free_unpacked=True)
    assert torch.equal(embedding.weight, projection.weight)
    assert not embedding.weight.isnan().any()


class Decoder(nn.Module):
    def __init__(self, words=70, width=24, tied=True, **settings):
        super().__init__()
        torch.manual_seed(4)
        self.embed_tokens = nn.Embedding(words, width, padding_idx=1, **settings)
        self.output_projection = nn.Linear(width, words, bias=False)
        if tied:
            self.output_projection.weight = self.embed_tokens.weight


def test_an_untied_projection_is_freed_alone():
    decoder = Decoder(tied=False)
    wanted = decoder.output_projection.weight.detach().clone()
    vocabulary_product(decoder, free_unpacked=True)
    assert type(decoder.embed_tokens) is nn.Embedding
    assert isinstance(decoder.output_projection, PackedLinear)
    assert torch.equal(decoder.output_projection.weight, wanted)


@pytest.mark.parametrize("why", ["tied", "a chain"])
def test_a_vocabulary_that_is_looked_up_stays(why):
    decoder = Decoder(tied=why == "tied")
    if why == "a chain":
        decoder.chain = nn.Identity()
    vocabulary_product(decoder, free_unpacked=True)
    assert type(decoder.embed_tokens) is nn.Embedding
    assert type(decoder.output_projection) is nn.Linear


def test_other_classes_are_left_alone():
    class Masked(nn.Linear):
        pass

    modules = [Masked(24, 8), nn.Linear(24, 8)]
    Linear.of(*modules, free_unpacked=True)
    assert [type(module) for module in modules] == [Masked, nn.Linear]


def test_small_fp32_products_keep_their_weight(monkeypatch):
    monkeypatch.setattr(linear, "PACKED_FROM", 24 * 16 + 1)
    small, large = nn.Linear(24, 16), nn.Linear(24, 17)
    assert not Linear.of(small, free_unpacked=True).packed and type(small) is nn.Linear
    assert Linear.of(large, free_unpacked=True).packed and type(large) is PackedLinear


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize("case", ["greedy", "gad-attached", "blockwise", "bild-early-exit"])
def test_released_models_decode_as_before_in_both_engines(case, backend):
    """fairseq's attention reads weights past ``forward``; it must find them."""
    models = [copy.deepcopy(toys(case).verifier())]
    size = sum(p.numel() for p in models[0].parameters())
    sample, args = make_sample(sentences(12, seed=77)), flags(max_len_b=20)
    wanted = tokens(stock(models, sample, args))
    assert_diverse(wanted)
    traced = Overrides(keep_trace=True)
    generator = make_generator(
        case, args, models, free_unpacked=True, overrides=traced, backend=backend
    )
    outputs = decode(generator, sample)
    assert tokens(outputs) == wanted
    for facts in (part for hypothesis in outputs for part in [hypothesis, *hypothesis["history"]]):
        tensors = [value for value in facts.values() if torch.is_tensor(value)]
        assert tensors and not any(tensor.is_inference() for tensor in tensors)
    kept = [n for n, m in models[0].named_modules() if type(m) is nn.Linear and ".layers." in n]
    packed = [m for m in models[0].modules() if isinstance(m, PackedModule)]
    assert not kept and len(packed) >= 2 * 6 + 2 * 10
    assert sum(p.numel() for p in models[0].parameters()) == size
    assert tokens(stock(models, sample, args)) == wanted
    generator.refresh()
    assert tokens(decode(generator, sample)) == wanted
    again = make_generator(case, args, models, free_unpacked=True, backend=backend)
    assert tokens(decode(again, sample)) == wanted
