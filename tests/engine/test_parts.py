"""Every part and setting of a fairseq Transformer is run by the engine, or refused by name."""

import copy
import dataclasses

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer import TransformerConfig, TransformerModel, TransformerModelBase
from fairseq.models.transformer_from_pretrained_xlm import TransformerDecoderFromPretrainedXLM
from torch import nn
from toy_translation import make_task
from transformer_settings import (
    EXAMPLES,
    PRE_NORM,
    TOGETHER,
    build,
    by_engine,
    by_stock,
    randomise,
    small_settings,
)

from fairseq_specdec.decoding.builder import check_verifier
from fairseq_specdec.engine.backend import TORCH, NativeBackend
from fairseq_specdec.engine.native.library import load
from fairseq_specdec.engine.support import runs_encoder

FULL = dict(
    PRE_NORM, quant_noise_pq=0.1, layernorm_embedding=True, decoder_output_dim=8,
    encoder_learned_pos=True, decoder_learned_pos=True,
)  # fmt: skip


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return build(FULL, tmp_path_factory.mktemp("full"))


def surprise(*given):
    return None


CHANGES = {
    "parameter": lambda part: part.register_parameter("surprise", nn.Parameter(torch.ones(1))),
    "child": lambda part: part.add_module("surprise", nn.Linear(2, 2)),
    "hook": lambda part: part.register_forward_hook(surprise),
    "pre-hook": lambda part: part.register_forward_pre_hook(surprise),
    "forward": lambda part: setattr(part, "forward", surprise),
    "class": lambda part: setattr(part, "__class__", type("Surprise", (type(part),), {})),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_unknown_in_any_part_is_refused_or_left_to_stock(name, full):
    """A decoder is refused by the part's name; an encoder's own code runs. One part of a kind."""
    kinds = set()
    for part, module in full.named_modules():
        kind = part.split(".")[0], type(module)
        if not part.startswith(("decoder", "encoder")) or kind in kinds:
            continue
        kinds.add(kind)
        if part == "encoder" or part == "decoder" and name not in ("parameter", "child", "forward"):
            continue
        model = copy.deepcopy(full)
        CHANGES[name](model.get_submodule(part))
        if part.startswith("encoder"):
            assert not runs_encoder(model.encoder), part
            continue
        with pytest.raises(ValueError) as caught:
            check_verifier(model, "--path")
        text = str(caught.value)
        assert text.startswith(f"--path: speculative decoding does not run {part}"), text
        assert "\n" not in text
    assert runs_encoder(full.encoder)


@pytest.mark.parametrize("name", ["parameter", "child"])
def test_what_is_unknown_in_a_later_layer_is_refused(name, full):
    model = copy.deepcopy(full)
    CHANGES[name](model.decoder.layers[1].fc1)
    with pytest.raises(ValueError, match="does not run decoder.layers.1"):
        check_verifier(model, "--path")


@pytest.mark.parametrize(
    "part, setting, value",
    [("encoder_attn", "add_zero_attn", True), ("dropout_module", "apply_during_inference", True),
     ("self_attn_layer_norm", "eps", 0.3)],
)  # fmt: skip
def test_what_a_setting_computes_otherwise_is_refused(part, setting, value, tmp_path):
    """In all layers, of which the first is run, and in another one alone."""
    model = build({"dropout": 0.5}, tmp_path)
    check_verifier(model.train(), "--path")
    assert all(each.training for each in model.modules())
    last = copy.deepcopy(model)
    setattr(getattr(last.decoder.layers[1], part), setting, value)
    with pytest.raises(ValueError, match="does not run decoder.layers.1.*, which differs"):
        check_verifier(last, "--path")
    for layer in model.decoder.layers:
        setattr(getattr(layer, part), setting, value)
    if setting == "eps":  # the engine reads it
        return check_verifier(model, "--path")
    with pytest.raises(ValueError, match="--path: .* gives other log-probabilities in fairseq"):
        check_verifier(model, "--path")


def test_settings_of_another_fairseq_are_found_by_what_they_do(full, monkeypatch):
    kind = type(full.encoder)
    forward = kind.forward_torchscript

    def louder(self, net_input):
        out = forward(self, net_input)
        return dict(out, encoder_out=[2 * out["encoder_out"][0]])

    monkeypatch.setattr(kind, "forward_torchscript", louder)
    assert not runs_encoder(full.encoder)
    assert not runs_encoder(nn.Identity())


def test_a_model_with_an_output_of_its_own_is_refused(full):
    class Louder(TransformerModel):
        def get_normalized_probs(self, net_output, log_probs, sample=None):
            return 2 * super().get_normalized_probs(net_output, log_probs, sample)

    model = copy.deepcopy(full)
    model.__class__ = Louder
    with pytest.raises(ValueError, match="does not run .* gives other log-probabilities"):
        check_verifier(model, "--path")
    model = copy.deepcopy(full)
    model.decoder.__class__ = TransformerDecoderFromPretrainedXLM
    with pytest.raises(ValueError, match="with decoder TransformerDecoderFromPretrainedXLM"):
        check_verifier(model, "--path")


def arch_model(arch):
    """A small model of an architecture."""
    args = small_settings(arch=arch)
    ARCH_CONFIG_REGISTRY[arch](args)
    for side in ("encoder", "decoder"):
        setattr(args, f"{side}_layers", 2)
    return randomise(ARCH_MODEL_REGISTRY[arch].build_model(args, make_task(6, 6)))


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


def test_models_that_are_no_transformer_are_refused():
    others = {m for m in MODEL_REGISTRY.values() if not issubclass(m, TransformerModelBase)}
    assert len(others) > 20
    for model in others:
        with pytest.raises(ValueError, match="--path holds a"):
            check_verifier(object.__new__(model), "--path")


def test_models_that_searched_with_beams_before_are_run(tmp_path):
    """fairseq's BART keeps the size of its last beam in each layer, and reads encoders by it."""
    model = build(PRE_NORM, tmp_path)
    for layer in model.decoder.layers:
        layer.encoder_attn.set_beam_size(5)
    check_verifier(model, "--path")
    assert {layer.encoder_attn.beam_size for layer in model.decoder.layers} == {5}


# Settings to what the refusal says.
REFUSED = {
    "adaptive_softmax_cutoff": "--adaptive-softmax-cutoff",
    "cross_self_attention": "gives other log-probabilities",
    "quant_noise.scalar": "ActivationQuantizer",
    "scale_attn": "--scale-attn",
    "scale_fc": "--scale-fc",
    "scale_heads": "--scale-heads",
    "scale_resids": "--scale-resids",
}
WITH_REFUSED = {"adaptive_softmax_dropout", "adaptive_softmax_factor", "tie_adaptive_proj"}
# Modules that need xformers, or several processes: refused as any module that is not known.
UNTRIED = {
    "encoder.xformers_att_config", "decoder.xformers_att_config", "base_layers", "base_sublayers",
    "base_shuffle",
}  # fmt: skip


def fields():
    """The settings of this fairseq's Transformer, nested as ``decoder.layers``."""
    for field in dataclasses.fields(TransformerConfig):
        if dataclasses.is_dataclass(field.type):
            yield from (f"{field.name}.{inner.name}" for inner in dataclasses.fields(field.type))
        else:
            yield field.name


def test_every_setting_of_fairseq_has_an_example():
    """A release of fairseq with a new setting fails here until somebody has looked at it."""
    assert {name for name in fields() if not name.endswith("_name")} <= {*EXAMPLES, *UNTRIED}


@pytest.mark.parametrize("setting", EXAMPLES)
def test_a_model_with_it_is_decoded_as_stock_does_or_refused(setting, tmp_path):
    try:
        model = build(EXAMPLES[setting], tmp_path)
    except KeyError as error:
        pytest.skip(f"not in this fairseq: {error}")
    if setting not in {*REFUSED, *WITH_REFUSED}:
        check_verifier(model, "--path")
        torch.testing.assert_close(by_engine(model), by_stock(model), atol=2e-5, rtol=0)
        return
    with pytest.raises(ValueError) as caught:
        check_verifier(model, "--path")
    text = str(caught.value)
    assert text.startswith("--path: speculative decoding does not run") and "\n" not in text
    assert REFUSED.get(setting, "") in text


@pytest.mark.parametrize("native", [False, True], ids=["torch", "native"])
@pytest.mark.parametrize("name", TOGETHER)
def test_models_with_several_settings_are_decoded_as_stock_does(name, native, tmp_path):
    if native and load() is None:
        pytest.skip("no native library here")
    model = build(TOGETHER[name], tmp_path)
    check_verifier(model, "--path")
    backend = NativeBackend(load()) if native else TORCH
    torch.testing.assert_close(by_engine(model, backend), by_stock(model), atol=2e-5, rtol=0)
