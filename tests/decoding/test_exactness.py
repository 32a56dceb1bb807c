"""Lossless decoding of verifiers of other shapes is stock's; those without numbers are named."""

import copy

import pytest
import torch
from drafted import compare
from pairwise import half
from toy_strategies import check, decode, flags, make_generator, stock, tokens, toys, verifying
from toy_translation import SHAPES, assert_diverse, make_sample, sentences, toy_model

UNK = 3
SENTENCES = sentences(12, seed=7)
ENOUGH = make_sample(SENTENCES)


CASES = [case for case in verifying() if case not in ("none", "specdec")]


@pytest.mark.parametrize("shape, kind", half([*SHAPES], ["greedy", "gad", "noisy"]))
def test_equals_stock_for_every_shape_of_verifier(shape, kind):
    assert_diverse(compare([toy_model(shape)], kind)[0])
    if shape == "learned":  # up to its last position
        args = flags(max_len_b=200, min_len=50)
        compare([toy_model(shape)], kind, args, chosen=SENTENCES[:4])


@pytest.mark.parametrize("shape", ["pre_norm", "layernorm_embedding"])
def test_drafters_read_verifiers_of_other_shapes(shape):
    for changes in ({}, {"no_repeat_ngram_size": 3}):
        compare([toy_model(shape)], "gad-attached-unsure", flags(**changes))


@pytest.mark.parametrize("case", ["greedy", "gad"])
def test_scores_agree_relative_to_the_total(case):
    """Stock adds log-probabilities up in fp32, and takes differences of the sums."""
    args = flags(unkpen=-20.0, lenpen=-1.0)
    generator = make_generator(case, args)
    for mine, theirs in zip(decode(generator, ENOUGH), stock(generator.models, ENOUGH, args)):
        assert mine["tokens"].tolist() == theirs["tokens"].tolist()
        score, own = float(theirs["score"]), mine["positional_scores"]
        assert abs(float(mine["score"]) - score) < 1e-5 * max(1.0, abs(score))
        total = max(1.0, float(own.cumsum(0).abs().max()))
        assert float((own - theirs["positional_scores"]).abs().max()) < 1e-6 * total + 1e-5


def test_generators_follow_weights_after_refresh():
    model = copy.deepcopy(toy_model("post_norm"))
    generator = make_generator("greedy", models=[model])
    decode(generator, ENOUGH)
    with torch.no_grad():
        for parameter in model.decoder.layers.parameters():
            parameter.data.mul_(1.3)
    generator.refresh()
    check(decode(generator, ENOUGH), stock([model], ENOUGH, flags()))


IMPOSSIBLE = {
    "all words used up": ({"no_repeat_ngram_size": 1, "min_len": 40}, None, r"position 26"),
    "a prefix that repeats": ({"no_repeat_ngram_size": 2}, [5, 5, 5], r"position 2"),
    "a prefix without chance": ({"unkpen": float("inf")}, [UNK], r"position 0"),
}


@pytest.mark.parametrize("case, how", half(CASES, [*IMPOSSIBLE]))
def test_where_no_token_is_possible_decoding_stops(case, how):
    """Stock dies of an assertion; a token without a chance must not come out as if it were one."""
    changes, prefix, where = IMPOSSIBLE[how]
    given = None if prefix is None else torch.tensor([prefix] * len(SENTENCES))
    generator = make_generator(case, flags(**changes))
    with pytest.raises(ValueError, match=f"no possible token at {where} of sentence .*--no-repeat"):
        decode(generator, ENOUGH, given)


def poisoned(model, name, value):
    broken = copy.deepcopy(model)
    with torch.no_grad():
        dict(broken.named_parameters())[name].view(-1)[3] = value
    return broken


POISONED = [
    ("encoder.layers.1.fc1.weight", float("nan")),
    ("decoder.layers.0.fc2.bias", float("inf")),
    ("decoder.layers.1.fc2.weight", float("nan")),
]


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("name, value", POISONED)
@pytest.mark.parametrize("case", ["greedy", "gad"])
def test_a_poisoned_verifier_is_named_with_the_place(case, name, value, backend, beam):
    """Also where most weights exist packed alone."""
    for free in (False, True):
        broken = poisoned(toys(case).verifier(), name, value)
        text = f"no number at position 0 of sentence 0 .*model 1 of 1 holds NaN or inf.* in {name}"
        generator = make_generator(case, flags(beam), [broken], backend=backend, free_unpacked=free)
        with pytest.raises(ValueError, match=text):
            decode(generator, ENOUGH)


def test_other_models_without_numbers_are_named():
    models = [toy_model(), poisoned(toy_model("pre_norm"), "decoder.layer_norm.bias", float("nan"))]
    with pytest.raises(ValueError, match="model 2 of 2 holds .* in decoder.layer_norm.bias"):
        decode(make_generator("greedy", models=models), ENOUGH)
    model = copy.deepcopy(toy_model("separate_embeddings"))
    with torch.no_grad():  # every weight is a number, and their product is none
        model.decoder.output_projection.weight.fill_(3e38)
    with pytest.raises(ValueError, match="no number at position 0 .*is the checkpoint sound"):
        decode(make_generator("greedy", models=[model]), ENOUGH)


@pytest.mark.parametrize("sampling", [False, True])
@pytest.mark.parametrize("case", ["gad", "gad-attached", "sps", "bild"])
def test_a_poisoned_drafter_costs_speed_only(case, sampling):
    if sampling and case == "gad-attached":
        pytest.skip("draws no tokens")
    for value in (float("nan"), float("inf")):
        generator = make_generator(case, flags(sampling=sampling))
        for name, parameter in generator.drafter.model.named_parameters():
            if "fc2" in name or "norm" in name:
                parameter.data.fill_(value)
        generator.refresh()
        outputs = tokens(decode(generator, ENOUGH))
        if not sampling:
            assert outputs == tokens(stock(generator.models, ENOUGH, flags()))
