"""Every activation function that fairseq knows by a name builds a stock model, which runs."""

import inspect
import re

import pytest
import torch
from fairseq import utils
from fairseq.modules import conformer_layer
from transformer_settings import build, by_stock

NAMES = re.findall(r'activation == "(\w+)"', inspect.getsource(utils.get_activation_fn))


@pytest.mark.parametrize("name", NAMES)
def test_a_stock_transformer_runs(name, tmp_path):
    model = build({"activation_fn": name}, tmp_path)
    assert torch.isfinite(by_stock(model)).all()
    assert torch.is_tensor(utils.get_activation_fn(name)(torch.ones(3)))


def test_what_takes_swish_as_a_class_still_does():
    """fairseq's Conformer makes an object of it."""
    module = conformer_layer.FeedForwardModule(4, 8, 0.0, 0.0, activation_fn="swish")
    assert isinstance(module.activation, torch.nn.SiLU)
    assert module(torch.ones(1, 4)).shape == (1, 4)
