"""Weights that are no numbers: a verifier's stop decoding by name, a drafter's change nothing."""

import copy

import pytest
import torch
from toy_strategies import TOYS, decode, flags, make_generator, stock, tokens, toys, verifying
from toy_translation import make_sample, sentences, toy_model

SENTENCES = sentences(6, seed=5)

DRAFTED = [case for case, own in TOYS.items() if own.drafter is not None and own.lossless]


def poisoned(model, name, value):
    broken = copy.deepcopy(model)
    with torch.no_grad():
        dict(broken.named_parameters())[name].view(-1)[3] = value
    return broken


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=str)
@pytest.mark.parametrize("name", ["encoder.layers.1.fc1.weight", "decoder.layers.0.fc2.bias"])
@pytest.mark.parametrize("case", verifying())
def test_a_poisoned_verifier_is_named_with_the_place(case, name, value):
    broken = poisoned(toys(case).verifier(), name, value)
    text = f"no number at position 0 of sentence 0 .*model 1 of 1 holds NaN or infinity in {name}"
    with pytest.raises(ValueError, match=text):
        decode(make_generator(case, models=[broken]), make_sample(SENTENCES))


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("backend", ["torch", "native"])
def test_freed_weights_are_not_blamed(backend, beam):
    """Of a model that is only to decode, most weights exist packed alone."""
    broken = poisoned(toy_model(), "decoder.layers.1.fc2.weight", float("nan"))
    args = flags()
    args.beam = beam
    generator = make_generator("greedy", args, [broken], free_unpacked=True, backend=backend)
    with pytest.raises(ValueError, match="model 1 of 1 holds .* in decoder.layers.1.fc2.weight"):
        decode(generator, make_sample(SENTENCES))


def test_the_poisoned_model_of_an_ensemble_is_named():
    models = [toy_model(), poisoned(toy_model("pre_norm"), "decoder.layer_norm.bias", float("nan"))]
    with pytest.raises(ValueError, match="model 2 of 2 holds .* in decoder.layer_norm.bias"):
        decode(make_generator("greedy", models=models), make_sample(SENTENCES))


def test_infinity_that_only_the_numbers_reach():
    """Every weight is a number, and their product is none."""
    model = copy.deepcopy(toy_model("separate_embeddings"))
    with torch.no_grad():
        model.decoder.output_projection.weight.fill_(3e38)
    with pytest.raises(ValueError, match="no number at position 0 .*is the checkpoint sound"):
        decode(make_generator("greedy", models=[model]), make_sample(SENTENCES))


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=str)
@pytest.mark.parametrize("sampling", [False, True])
@pytest.mark.parametrize("case", DRAFTED)
def test_a_poisoned_drafter_costs_speed_only(case, sampling, value):
    if sampling and case not in ("gad", "sps", "bild"):
        pytest.skip("draws no tokens")
    args = flags(sampling=sampling)
    generator = make_generator(case, args)
    for name, parameter in generator.drafter.model.named_parameters():
        if "fc2" in name or "norm" in name:
            parameter.data.fill_(value)
    generator.refresh()
    outputs = tokens(decode(generator, make_sample(SENTENCES)))
    if not sampling:
        expected = stock(generator.models, make_sample(SENTENCES), flags())
        assert outputs == tokens(expected)
