"""Lossless decoding says what stock fairseq says, whatever the verifier is."""

import copy

import pytest
import torch
from drafted import SENTENCES, compare, decode
from toy_strategies import check, flags, make_generator, stock
from toy_strategies import decode as decode_with
from toy_translation import SHAPES, WORDS, assert_diverse, make_sample, toy_model

KINDS = ["greedy", "iad", "gad", "gad-attached", "noisy"]
FIRST_HALF = torch.arange(4, 4 + WORDS // 2)
SECOND_HALF = torch.arange(4 + WORDS // 2, 4 + WORDS)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["greedy", "gad", "noisy"])
def test_equals_stock_for_every_shape_of_verifier(shape, kind):
    assert_diverse(compare([toy_model(shape)], kind)[0])


@pytest.mark.parametrize("shape", ["pre_norm", "learned", "layernorm_embedding"])
def test_drafters_read_verifiers_of_other_shapes(shape):
    for changes in ({}, {"no_repeat_ngram_size": 3}):
        compare([toy_model(shape)], "gad-attached-unsure", flags(**changes))


@pytest.mark.parametrize(
    "changes",
    [{"unkpen": -20.0}, {"lenpen": -1.0}, {"unkpen": -20.0, "lenpen": -1.0}, {"lenpen": -2.0}],
    ids=str,
)
@pytest.mark.parametrize("kind", ["greedy", "gad", "noisy"])
def test_scores_agree_relative_to_the_total(kind, changes):
    """Stock adds log-probabilities up in fp32, and takes differences of the sums."""
    sample = make_sample(SENTENCES)
    reference = stock([toy_model("learned")], sample, flags(**changes))
    outputs = [h["tokens"].tolist() for h in reference]
    ours, _ = decode([toy_model("learned")], sample, kind, flags(**changes), outputs)
    for mine, theirs in zip(ours, reference):
        assert mine["tokens"].tolist() == theirs["tokens"].tolist()
        score, own = float(theirs["score"]), mine["positional_scores"]
        assert abs(float(mine["score"]) - score) < 1e-5 * max(1.0, abs(score))
        total = max(1.0, float(own.cumsum(0).abs().max()))
        assert float((own - theirs["positional_scores"]).abs().max()) < 1e-6 * total + 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_equals_stock_in_double_precision(kind):
    compare([copy.deepcopy(toy_model("pre_norm")).double()], kind)


@pytest.mark.parametrize("kind", ["greedy", "gad", "noisy"])
def test_equals_stock_up_to_the_last_learned_position(kind):
    compare([toy_model("learned")], kind, flags(max_len_b=200, min_len=50), chosen=SENTENCES[:4])


@pytest.mark.parametrize("kind", ["greedy", "perfect", "noisy"])
def test_ties_go_where_stock_sends_them(kind):
    model = copy.deepcopy(toy_model("separate_embeddings"))
    with torch.no_grad():
        weight = model.decoder.output_projection.weight
        weight[FIRST_HALF] = weight[SECOND_HALF]
    compare([model], kind)


def test_generators_follow_weights_after_refresh():
    model = copy.deepcopy(toy_model("post_norm"))
    generator, sample = make_generator("greedy", models=[model]), make_sample(SENTENCES)
    decode_with(generator, sample)
    with torch.no_grad():
        for parameter in model.decoder.layers.parameters():
            parameter.data.mul_(1.3)
    generator.refresh()
    check(decode_with(generator, sample), stock([model], sample, flags()))


@pytest.mark.parametrize("kind", ["greedy", "gad", "noisy"])
def test_models_left_in_training_decode_as_stock_does(kind):
    """Stock's generator puts them into evaluation."""
    model = copy.deepcopy(toy_model("quant_noise"))
    for module in model.modules():
        if hasattr(module, "apply_during_inference"):
            module.p = 0.5
    reference = stock([copy.deepcopy(model).train()], make_sample(SENTENCES), flags())
    outputs = [h["tokens"].tolist() for h in reference]
    check(decode([model.train()], make_sample(SENTENCES), kind, flags(), outputs)[0], reference)
