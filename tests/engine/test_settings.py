"""Every setting of fairseq's Transformer is run as stock runs it, or refused."""

import copy
import dataclasses
import pathlib
from argparse import Namespace

import pytest
import torch
import toy_translation
from fairseq.models.transformer import TransformerConfig
from fairseq.quantization_utils import quantize_model_scalar
from transformer_settings import EXAMPLES, TOGETHER, build, by_engine, by_stock, settings_read

from fairseq_specdec.decoding.builder import check_verifier
from fairseq_specdec.engine.backend import TORCH, NativeBackend
from fairseq_specdec.engine.native.library import load

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "exactness.md"
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


@pytest.mark.slow
def test_scalar_quantisation_is_refused_because_stock_depends_on_what_came_before(monkeypatch):
    """Activations are scaled as those of the first batch were, and anew every 1,000 calls."""
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor)  # stock asks for a GPU
    task = toy_translation.make_task()

    def quantised():
        model = copy.deepcopy(toy_translation.toy_model("separate_embeddings"))
        return quantize_model_scalar(model, Namespace(quant_noise_scalar=0.1)).eval()

    def decode(model, sentence):
        generator = task.build_generator([model], Namespace(beam=1))
        sample = toy_translation.make_sample([sentence])
        return task.inference_step(generator, [model], sample)[0][0]["tokens"].tolist()

    short, *sentences = [toy_translation.sentences(24, seed=7)[i] for i in (3, 2, 6, 9, 10)]
    alone = [decode(quantised(), sentence) for sentence in sentences]
    used = quantised()
    decode(used, short)
    after = [decode(copy.deepcopy(used), sentence) for sentence in sentences]
    assert decode(quantised(), sentences[0]) == alone[0]
    assert sum(a != b for a, b in zip(alone, after)) >= 2


def test_the_docs_have_every_setting():
    rows = [row.strip("|").split("|") for row in PAGE.read_text().splitlines() if row[:4] == "| `-"]
    told = {flag.strip(" `"): fate.strip() for flags, fate in rows for flag in flags.split(",")}
    flags = {"--" + name.replace(".", "-").replace("_", "-"): name for name in EXAMPLES}
    assert set(told) == set(flags)
    assert {flags[flag] for flag, fate in told.items() if fate == "refused"} == set(REFUSED)
