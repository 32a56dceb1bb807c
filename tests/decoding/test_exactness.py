"""Models without numbers, and places without a token: what cannot be decoded is named."""

import copy

import pytest
import torch
from pairwise import half
from toy_strategies import TOYS, decode, flags, make_generator, stock, tokens, verifying
from toy_translation import EOS, PAD, make_sample, sentences, toy_model

UNK = 3
SENTENCES = sentences(12, seed=7)
ENOUGH = make_sample(SENTENCES)
CASES = [case for case in verifying() if case not in ("none", "specdec")]


# Flags, a forced beginning of each sentence, and where no token is possible. In the last one the
# first sentence has left by then.
IMPOSSIBLE = {
    "all words used up": ({"no_repeat_ngram_size": 1, "min_len": 40}, [[PAD]], "26 of sentence 0"),
    "a prefix that repeats": ({"no_repeat_ngram_size": 2}, [[5, 5, 5]], "2 of sentence 0"),
    "a prefix without chance": ({"unkpen": float("inf")}, [[UNK]], "0 of sentence 0"),
    "one of two": ({"unkpen": float("inf")}, [[EOS, PAD, PAD], [5, 6, UNK]], "2 of sentence 1"),
}


@pytest.mark.parametrize(
    "case, how, backend, beam",
    [
        *half(CASES, [*IMPOSSIBLE], ["native"], [1]),
        *half(["greedy", "gad"], [*IMPOSSIBLE], ["torch"], [1]),
        *(("greedy", "one of two", backend, 3) for backend in ("torch", "native")),
    ],
)
def test_where_no_token_is_possible_decoding_stops(case, how, backend, beam):
    """Stock dies of an assertion; a token without a chance must not come out as if it were one."""
    changes, prefix, where = IMPOSSIBLE[how]
    generator = make_generator(case, flags(beam, **changes), backend=backend)
    with pytest.raises(ValueError, match=f"no possible token at position {where} .*--no-repeat"):
        decode(generator, make_sample(SENTENCES[: len(prefix)]), torch.tensor(prefix))


def poisoned(model, name, value):
    broken = copy.deepcopy(model)
    with torch.no_grad():
        dict(broken.named_parameters())[name].view(-1)[3] = value
    return broken


POISONED = [
    ("encoder.layers.1.fc1.weight", float("nan")),
    ("decoder.layers.0.fc2.bias", float("inf")),
]


@pytest.mark.parametrize(
    "case, poison, backend, beam, free",
    half(["greedy", "gad"], POISONED, ["torch", "native"], [1, 3], [False, True]),
)
def test_a_poisoned_verifier_is_named_with_the_place(case, poison, backend, beam, free):
    """Also where most weights exist packed alone."""
    broken = poisoned(TOYS[case].verifier(), *poison)
    text = f"no number at position 0 of sentence 0 .*model 1 of 1 holds NaN or inf.* in {poison[0]}"
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


@pytest.mark.parametrize("case", ["gad", "gad-attached", "sps", "bild"])
def test_a_poisoned_drafter_costs_speed_only(case):
    for value, sampling in ((float("nan"), False), (float("inf"), False), (float("nan"), True)):
        if sampling and case == "gad-attached":
            continue  # draws no tokens
        generator = make_generator(case, flags(sampling=sampling))
        for name, parameter in generator.drafter.model.named_parameters():
            if "fc2" in name or "norm" in name:
                parameter.data.fill_(value)
        generator.refresh()
        outputs = tokens(decode(generator, ENOUGH))
        assert sampling or outputs == tokens(stock(generator.models, ENOUGH, flags()))
