"""Every part of a fairseq Transformer is run by the engine, or refused by name."""

import copy

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel, TransformerModelBase
from fairseq.models.transformer_from_pretrained_xlm import TransformerDecoderFromPretrainedXLM
from torch import nn
from transformer_settings import (
    EXAMPLES,
    PRE_NORM,
    TOGETHER,
    build,
    by_engine,
    by_stock,
    make_task,
    randomise,
    small_settings,
)

from fairseq_specdec.decoding.builder import check_verifier
from fairseq_specdec.engine.eager.parts import runs_encoder
from fairseq_specdec.engine.eager.settings import FATES, REFUSED

FULL = dict(
    PRE_NORM, quant_noise_pq=0.1, layernorm_embedding=True, decoder_output_dim=8,
    encoder_learned_pos=True, decoder_learned_pos=True,
)  # fmt: skip
# A constant in all keys changes no attention.
WITHOUT_EFFECT = ("k_proj.bias",)
# Tables that both compute anew, and the layout's version.
COMPUTED = (".version", "embed_positions.weights", "embed_positions._float_tensor")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return build(FULL, tmp_path_factory.mktemp("full"))


def disagreements(model):
    """The parameters and buffers that change the output of stock and of the engine differently.

    Raises:
        AssertionError: one changes nothing in stock, and its absence would not be noticed.
    """
    names = []
    before = by_stock(model)
    torch.testing.assert_close(by_engine(model), before, atol=2e-5, rtol=0)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if name.endswith(COMPUTED):
            continue
        kept = tensor.detach().clone()
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            tensor.add_(0.5 * torch.randn(tensor.shape, generator=generator))
        after = by_stock(model)
        if not name.endswith(WITHOUT_EFFECT):
            assert not torch.allclose(after, before, atol=1e-4), f"{name} changes nothing"
        if not torch.allclose(by_engine(model), after, atol=2e-5):
            names.append(name)
        with torch.no_grad():
            tensor.copy_(kept)
    return names


ACCEPTED = {
    name: changes
    for name, changes in {**EXAMPLES, **TOGETHER, "full": FULL}.items()
    if name not in FATES or FATES[name] != REFUSED
}


def walked():
    """Models that together hold every parameter that any accepted setting makes."""
    return ["post norm", "full", "decoder.embed_dim", "one table"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("decoder.embed_dim", "one table")))
        for name in walked()
    ],
)
def test_every_parameter_and_buffer_acts_as_in_stock(name, tmp_path):
    assert disagreements(build(ACCEPTED[name], tmp_path)) == []


def names(changes, folder):
    try:
        model = build(changes, folder)
        check_verifier(model, "--path")
    except (KeyError, ValueError):  # refused, or another release of fairseq
        return set()
    tensors = [*model.named_parameters(), *model.named_buffers()]
    # Layers are alike.
    return {".".join(p for p in name.split(".") if not p.isdigit()) for name, _ in tensors}


def test_no_setting_makes_parameters_that_were_not_walked(tmp_path):
    known = set().union(*(names(ACCEPTED[name], tmp_path) for name in walked()))
    for setting, changes in EXAMPLES.items():
        assert names(changes, tmp_path) <= known, setting


# --- what nobody has classified


def parts_of(model):
    return [name for name, _ in model.named_modules() if name]


def add_parameter(module):
    module.register_parameter("surprise", nn.Parameter(torch.ones(1)))


def add_buffer(module):
    module.register_buffer("surprise", torch.ones(1))


def add_child(module):
    module.add_module("surprise", nn.Linear(2, 2))


def add_silent_child(module):
    module.add_module("surprise", nn.Identity())


def add_hook(module):
    module.register_forward_hook(surprise)


def add_pre_hook(module):
    module.register_forward_pre_hook(surprise)


def replace_forward(module):
    module.forward = surprise


def change_class(module):
    module.__class__ = type("Surprise", (type(module),), {})


def surprise(*given):
    return None


TENSORS = [add_parameter, add_buffer, add_child, add_silent_child]
CHANGES = [*TENSORS, add_hook, add_pre_hook, replace_forward, change_class]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_is_unknown_in_any_part_of_a_decoder_is_refused(change, full):
    for part in parts_of(full.decoder):
        model = copy.deepcopy(full)
        change(model.decoder.get_submodule(part))
        with pytest.raises(ValueError) as caught:
            check_verifier(model, "--path")
        text = str(caught.value)
        assert text.startswith("--path: speculative decoding does not run") and "\n" not in text
        assert f"decoder.{part}" in text
        assert "surprise" in text.lower() or change is replace_forward


@pytest.mark.parametrize("change", [*TENSORS, replace_forward], ids=lambda c: c.__name__)
def test_what_is_unknown_in_the_decoder_itself_is_refused(change, full):
    model = copy.deepcopy(full)
    change(model.decoder)
    with pytest.raises(ValueError, match="--path: speculative decoding does not run decoder"):
        check_verifier(model, "--path")


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_an_encoder_with_something_unknown_is_left_to_stock(change, full):
    for part in parts_of(full.encoder):
        model = copy.deepcopy(full)
        change(model.encoder.get_submodule(part))
        assert not runs_encoder(model.encoder), part
    assert runs_encoder(full.encoder)


def test_a_hook_in_the_encoder_is_run(full):
    model = copy.deepcopy(full)
    model.encoder.layers[1].fc1.register_forward_hook(lambda module, given, x: 2 * x)
    check_verifier(model, "--path")
    expected = by_stock(model)
    assert not torch.allclose(expected, by_stock(full), atol=1e-2)
    torch.testing.assert_close(by_engine(model), expected, atol=2e-5, rtol=0)


def test_attention_that_does_something_else_without_a_part_is_refused(full):
    for name, word in (("add_zero_attn", "extra keys"), ("skip_embed_dim_check", "pruned")):
        model = copy.deepcopy(full)
        setattr(model.decoder.layers[1].encoder_attn, name, True)
        with pytest.raises(ValueError, match=f"decoder.layers.1.encoder_attn with .*{word}"):
            check_verifier(model, "--path")


def test_dropout_that_is_left_on_is_refused(full):
    model = copy.deepcopy(full)
    dropout = model.decoder.layers[1].dropout_module
    dropout.apply_during_inference = True
    with pytest.raises(ValueError, match=r"decoder.layers.1.dropout_module.*\(--retain-dropout\)"):
        check_verifier(model, "--path")
    dropout.p = 0.0
    check_verifier(model, "--path")


@pytest.mark.parametrize("part", ["project_in_dim", "project_out_dim", "output_projection"])
def test_a_bias_that_stock_does_not_have_is_run(part, tmp_path):
    model = build(
        {"decoder_embed_dim": 24, "decoder_input_dim": 24, "decoder_output_dim": 8}, tmp_path
    )
    module = getattr(model.decoder, part)
    if module is None:  # no model of fairseq's own has it
        module = model.decoder.project_in_dim = nn.Linear(24, 24)
    before = by_stock(model)
    module.bias = nn.Parameter(torch.randn(module.out_features))
    assert not torch.allclose(by_stock(model), before, atol=1e-2)
    check_verifier(model, "--path")
    torch.testing.assert_close(by_engine(model), by_stock(model), atol=2e-5, rtol=0)


def test_a_model_with_an_output_of_its_own_is_refused(full):
    class Louder(TransformerModel):
        def get_normalized_probs(self, net_output, log_probs, sample=None):
            return 2 * super().get_normalized_probs(net_output, log_probs, sample)

    model = copy.deepcopy(full)
    model.__class__ = Louder
    with pytest.raises(ValueError, match=r"does not run get_normalized_probs\(\) of a Louder"):
        check_verifier(model, "--path")


# --- architectures


def arch_model(arch):
    """A small model of an architecture."""
    args = small_settings(arch=arch)
    ARCH_CONFIG_REGISTRY[arch](args)
    for side in ("encoder", "decoder"):
        setattr(args, f"{side}_layers", 2)
    task = make_task()
    return randomise(ARCH_MODEL_REGISTRY[arch].build_model(args, task))


RUN_MODELS = {
    "BARTModel", "BlockwiseTransformer", "EarlyExitTransformer", "MarianTransformer",
    "TransformerAlignModel", "TransformerModel",
}  # fmt: skip


def transformers():
    """Architectures of fairseq's Transformer, of which each class is taken once."""
    first = {}
    for arch, model in ARCH_MODEL_REGISTRY.items():
        if issubclass(model, TransformerModelBase):
            first.setdefault(model.__name__, arch)
    first.pop("TransformerFromPretrainedXLMModel")  # needs a checkpoint; below
    return sorted(first.values())


@pytest.mark.parametrize("arch", transformers())
def test_every_architecture_is_run_or_refused(arch):
    model = arch_model(arch)
    if type(model).__name__ in RUN_MODELS:
        check_verifier(model, "--path")
        torch.testing.assert_close(by_engine(model), by_stock(model), atol=5e-5, rtol=0)
        return
    with pytest.raises(ValueError, match=f"--path holds a {type(model).__name__}"):
        check_verifier(model, "--path")


def test_a_subclass_of_the_decoder_is_refused(full):
    model = copy.deepcopy(full)
    model.decoder.__class__ = TransformerDecoderFromPretrainedXLM
    with pytest.raises(ValueError, match="with decoder TransformerDecoderFromPretrainedXLM"):
        check_verifier(model, "--path")


def test_models_that_are_no_transformer_are_refused():
    others = {m for m in MODEL_REGISTRY.values() if not issubclass(m, TransformerModelBase)}
    assert len(others) > 20
    for model in others:
        with pytest.raises(ValueError, match="--path holds a"):
            check_verifier(object.__new__(model), "--path")
