"""Encoder layers hold their weights once, whichever fairseq wrote the checkpoint."""

import argparse

import pytest
import torch
from fairseq.modules import TransformerEncoderLayer

from fairseq_specdec.compat.better_transformer import DUPLICATES


def make_layer():
    torch.manual_seed(1)
    args = argparse.Namespace(
        encoder_embed_dim=8, encoder_attention_heads=2, encoder_ffn_embed_dim=16, dropout=0.0
    )
    return TransformerEncoderLayer(args)


def test_a_layer_has_no_duplicate_parameters():
    names = {name for name, _ in make_layer().named_parameters()}
    assert names.isdisjoint(DUPLICATES)
    assert len(names) == 16


def test_a_layer_runs_in_evaluation_with_padding():
    layer = make_layer().eval()
    with torch.no_grad():
        out = layer(torch.randn(4, 3, 8), torch.tensor([[False] * 3 + [True]] * 3))
    assert out.shape == (4, 3, 8) and bool(torch.isfinite(out[:3]).all())


@pytest.mark.parametrize("prefix", ["encoder.layers.0", "x"])
def test_a_checkpoint_of_0_12_2_loads(prefix):
    layer = make_layer()
    state = {f"{prefix}.{name}": value for name, value in layer.state_dict().items()}
    expected = set(state)
    state.update({f"{prefix}.{name}": torch.zeros(2) for name in DUPLICATES})
    layer.upgrade_state_dict_named(state, prefix)
    assert set(state) == expected
    make_layer().load_state_dict({name[len(prefix) + 1 :]: v for name, v in state.items()})
