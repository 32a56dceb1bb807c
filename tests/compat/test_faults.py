"""Faults of fairseq that are mended: swish, --bf16 on a CPU, duplicates in encoder layers."""

import argparse
import sys

import pytest
import torch
from fairseq import options, utils
from fairseq.modules import TransformerEncoderLayer, conformer_layer

from fairseq_specdec.compat.better_transformer import DUPLICATES


def test_what_takes_swish_as_a_class_still_does():
    """fairseq's Conformer makes an object of it."""
    module = conformer_layer.FeedForwardModule(4, 8, 0.0, 0.0, activation_fn="swish")
    assert isinstance(module.activation, torch.nn.SiLU)
    assert module(torch.ones(1, 4)).shape == (1, 4)


@pytest.mark.skipif(utils.xm is not None, reason="torch_xla is installed")
@pytest.mark.parametrize("flags, bf16, tpu", [
    (["--bf16"], True, False), (["--bf16", "--tpu"], True, True), (["--fp16"], False, False),
])  # fmt: skip
def test_bf16_asks_for_no_tpu(flags, bf16, tpu, monkeypatch):
    words = ["data", "--arch", "transformer", *flags]
    monkeypatch.setattr(sys, "argv", ["fairseq-train", *words])
    for given in (None, words):  # from the command line, or from a caller
        args = options.parse_args_and_arch(options.get_training_parser("translation"), given)
        assert (args.bf16, args.tpu) == (bf16, tpu)


def make_layer():
    args = argparse.Namespace(
        encoder_embed_dim=8, encoder_attention_heads=2, encoder_ffn_embed_dim=16, dropout=0.0
    )
    return TransformerEncoderLayer(args)


def test_a_layer_holds_its_weights_once_and_loads_those_of_0_12_2():
    layer = make_layer()
    names = {name for name, _ in layer.named_parameters()}
    assert names.isdisjoint(DUPLICATES) and len(names) == 16
    state = {f"encoder.layers.0.{name}": value for name, value in layer.state_dict().items()}
    expected = set(state)
    state.update({f"encoder.layers.0.{name}": torch.zeros(2) for name in DUPLICATES})
    layer.upgrade_state_dict_named(state, "encoder.layers.0")
    assert set(state) == expected
    make_layer().load_state_dict({name.rpartition("0.")[2]: v for name, v in state.items()})
    with torch.no_grad():
        out = layer.eval()(torch.randn(4, 3, 8), torch.tensor([[False] * 3 + [True]] * 3))
    assert out.shape == (4, 3, 8) and bool(torch.isfinite(out[:3]).all())
