"""Every setting of fairseq's Transformer is run as stock runs it, or refused."""

import dataclasses

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from transformer_settings import EXAMPLES, TOGETHER, build, by_engine, by_stock, settings_read

from fairseq_specdec.decoding.builder import check_verifier
from fairseq_specdec.engine.backend import TORCH, NativeBackend
from fairseq_specdec.engine.native.library import load

# Settings to what the refusal says.
REFUSED = {
    "decoder.xformers_att_config": "OtherAttention",
    "encoder.xformers_att_config": "OtherAttention",
    "adaptive_softmax_cutoff": "--adaptive-softmax-cutoff",
    "cross_self_attention": "gives other log-probabilities",
    "quant_noise.scalar": "ActivationQuantizer",
    "base_layers": "BaseLayer",
    "scale_attn": "--scale-attn",
    "scale_fc": "--scale-fc",
    "scale_heads": "--scale-heads",
    "scale_resids": "--scale-resids",
}
WITH_REFUSED = {
    "adaptive_softmax_dropout", "adaptive_softmax_factor", "tie_adaptive_proj", "base_sublayers",
    "base_shuffle",
}  # fmt: skip


def fields():
    """The settings of this fairseq's Transformer, nested as ``decoder.layers``."""
    for field in dataclasses.fields(TransformerConfig):
        if dataclasses.is_dataclass(field.type):
            yield from (f"{field.name}.{inner.name}" for inner in dataclasses.fields(field.type))
        else:
            yield field.name


def test_every_setting_that_fairseq_has_or_reads_has_an_example():
    """A release of fairseq with a new setting fails here until somebody has looked at it."""
    assert {name for name in fields() if not name.endswith("_name")} - set(EXAMPLES) == set()
    assert settings_read() - set(EXAMPLES) == set()
    assert {"scale_heads", "decoder.layers", "quant_noise.pq"} <= settings_read()


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
