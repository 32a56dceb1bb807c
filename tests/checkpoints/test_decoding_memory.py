"""Models that are only decoded take their weights from the file; all others are loaded as ever."""

import sys
from argparse import Namespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import nn

from fairseq_specdec.checkpoints.content import UNTRAINED, set_setting, settings_of
from fairseq_specdec.checkpoints.decoding_memory import only_to_decode
from fairseq_specdec.checkpoints.reading import load_checkpoint
from fairseq_specdec.config import TranslationSpecDecConfig
from fairseq_specdec.engine.memory import HeldWeight
from fairseq_specdec.tasks.translation_specdec import TranslationSpecDecTask


@pytest.fixture(scope="module")
def half(trained, tmp_path_factory):
    """A trained checkpoint in half precision."""
    state = load_checkpoint(str(trained.checkpoint))
    weights = {name: each.half() for name, each in state["model"].items()}
    path = tmp_path_factory.mktemp("half") / "half.pt"
    torch.save({**UNTRAINED, "args": None, "cfg": state["cfg"], "model": weights}, str(path))
    return path


def task_of(trained, ours):
    config = TranslationSpecDecConfig if ours else TranslationConfig
    kind = TranslationSpecDecTask if ours else TranslationTask
    return kind.setup_task(config(data=str(trained.arguments[0]), source_lang=None))


def loaded(path, task):
    (model,), _ = checkpoint_utils.load_model_ensemble([str(path)], task=task)
    return model


def held(model):
    return [each for each in model.parameters() if type(each) is HeldWeight]


def test_weights_stay_in_the_file(trained, half):
    task = task_of(trained, True)
    plain = loaded(half, task)
    drawn = torch.get_rng_state()
    with only_to_decode():
        model = loaded(half, task)
    assert torch.equal(torch.get_rng_state(), drawn)
    products = (nn.Linear, nn.Embedding)
    large = {id(each.weight) for each in model.modules() if type(each) in products}
    assert not held(plain) and set(map(id, held(model))) == large
    assert model.decoder.layers[0].fc1.weight.source.dtype == torch.float16
    here = dict(model.named_modules())
    for name, module in plain.named_modules():
        for what in ("weight", "bias"):
            wanted = getattr(module, what, None)
            if isinstance(wanted, torch.Tensor):
                assert torch.equal(getattr(here[name], what), wanted), name


def test_quantised_models_are_loaded_as_ever(trained, half):
    """fairseq replaces the modules of a model with --quant-noise-scalar, by their classes."""
    path = half.parent / "quantised.pt"
    state = load_checkpoint(str(half))
    set_setting(settings_of(state, "model"), quant_noise_scalar=0.1)
    torch.save(state, str(path))
    with only_to_decode():
        assert not held(loaded(path, task_of(trained, True)))


@pytest.mark.parametrize(
    "command, ours", [("generate", True), ("generate", False), ("train", True)]
)
def test_which_commands_it_concerns(trained, half, command, ours, monkeypatch):
    spec = Namespace(name=f"fairseq_cli.{command}")
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
    concerned = held(loaded(half, task_of(trained, ours)))
    assert bool(concerned) == (command == "generate" and ours)
