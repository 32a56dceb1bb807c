"""The early exit: one set of parameters, two depths, one head."""

import pytest
import torch
from fairseq.models.transformer import TransformerModel
from toy_early_exit import build, make_args
from toy_translation import EOS, SHAPES, make_sample, make_task, sentences

SOURCES = sentences(4, seed=3)
PREVIOUS = torch.tensor([[EOS, 5, 9, 7], [EOS, 8, 4, 6], [EOS, 11, 5, 5], [EOS, 6, 7, 8]])


def logits(model):
    with torch.no_grad():
        out, extra = model(prev_output_tokens=PREVIOUS, **make_sample(SOURCES)["net_input"])
    return out, extra["exit_logits"]


@pytest.mark.parametrize("shape", ["post_norm", "layernorm_embedding", "narrow_output"])
@pytest.mark.parametrize("exit_layer", [1, 2])
def test_the_exit_is_a_decoder_of_so_many_layers_with_the_same_head(shape, exit_layer):
    model = build(exit_layer=exit_layer, **SHAPES[shape]).eval()
    whole, early = logits(model)
    assert whole.shape == early.shape and not torch.allclose(whole, early)
    model.decoder.layers = model.decoder.layers[:exit_layer]
    cut, _ = logits(model)
    torch.testing.assert_close(early, cut)


def test_its_parameters_are_those_of_a_transformer():
    torch.manual_seed(1)
    model = build().eval()
    assert model.exit_layer == 1
    plain = TransformerModel.build_model(make_args(), make_task()).eval()
    plain.load_state_dict(model.state_dict(), strict=True)
    with torch.no_grad():
        out, _ = plain(prev_output_tokens=PREVIOUS, **make_sample(SOURCES)["net_input"])
    assert torch.equal(out, logits(model)[0])
