"""Tokens that leave the decoder early, against whole passes without a cache."""

import pytest
import torch
from slow_calm import calm
from toy_early_exit import toy_early_exit
from toy_strategies import check, decode, flags, make_generator, stock
from toy_translation import PAD, assert_diverse, make_sample, sentences, toy_model

from fairseq_specdec.engine.exits import ExitOptions
from fairseq_specdec.engine.native.library import load

SENTENCES = sentences(10, seed=7)
BACKENDS = [
    "torch",
    pytest.param("native", marks=pytest.mark.skipif(load() is None, reason="no native library")),
]
CASES = {
    "softmax": (0.5, "softmax", None),
    "softmax, unsure": (0.95, "softmax", None),
    "saturation": (0.8, "saturation", None),
    "falling": (0.8, "softmax", 4.0),
    "all at once": (0.0, "softmax", None),
}
MODELS = {
    "every layer": {"every": True},
    "one exit": {},
    "every layer, pre-norm": {"shape": "pre_norm", "every": True, "updates": 120},
    "from the second": {"exit_layer": 2, "updates": 120},
    "narrow output": {"shape": "narrow_output", "every": True, "updates": 120},
}


def make(model, case, args=None, **given):
    threshold, confidence, decay = case
    return make_generator(
        "calm", args, [model], exit_threshold=threshold, exit_confidence=confidence,
        exit_decay=decay, **given,
    )  # fmt: skip


def compare(model, case, chosen=SENTENCES, limit=63, **given):
    """Ours equals the slow one; returns the tokens and the layers that each took."""
    generator = make(model, case, flags(max_len_b=limit), **given)
    outputs = decode(generator, make_sample(chosen))
    wanted = [calm(model, words, *case, limit=limit) for words in chosen]
    for ours, (tokens, scores, _) in zip(outputs, wanted):
        assert ours["tokens"].tolist() == tokens
        torch.testing.assert_close(
            ours["positional_scores"], torch.tensor(scores), atol=1e-4, rtol=0
        )
    stats, depths = generator.stats, [depth for *_, each in wanted for depth in each]
    last = len(model.decoder.layers)
    assert stats.layers_run == sum(depths)
    assert stats.left_early == sum(depth < last for depth in depths)
    assert stats.early_exit_share == stats.left_early / len(depths)
    assert stats.mean_layers == sum(depths) / len(depths)
    return [tokens for tokens, *_ in wanted], depths


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("model", ["every layer", "one exit"])
def test_a_batch_equals_plain_passes(model, case, backend):
    tokens, depths = compare(toy_early_exit(**MODELS[model]), CASES[case], backend=backend)
    assert_diverse(tokens)
    if case == "all at once":
        assert set(depths) == {1}
    elif case != "saturation":
        assert len(set(depths)) > 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("model", list(MODELS)[2:])
def test_every_shape_equals_plain_passes(model, backend):
    for case in ("softmax", "saturation"):
        compare(toy_early_exit(**MODELS[model]), CASES[case], backend=backend)


def test_a_row_that_leaves_takes_its_states_along():
    """Of two rows few tokens reach the upper layers, so that states wait there."""
    model, by_length = toy_early_exit(every=True), sorted(SENTENCES, key=len)
    for short, long in zip(by_length[:5], by_length[5:]):
        for case in ("softmax", "softmax, unsure"):
            compare(model, CASES[case], [short, long])


def test_a_sentence_at_a_time_and_at_the_length_limit():
    model = toy_early_exit(every=True)
    for words in SENTENCES[:4]:
        compare(model, CASES["softmax"], [words])
    short, _ = compare(model, CASES["softmax"], limit=5)
    assert max(map(len, short)) == 6


def test_a_threshold_of_one_is_greedy_decoding():
    model = toy_early_exit(every=True)
    generator = make(model, (1.0, "softmax", None))
    sample = make_sample(SENTENCES)
    check(decode(generator, sample), stock([model], sample, flags()))
    assert generator.stats.left_early == 0 and generator.stats.mean_layers == 3


def test_the_threshold_falls():
    options = ExitOptions(0.8, "softmax", 4.0)
    falling = [options.threshold_at(step, 10) for step in range(11)]
    assert falling[0] == pytest.approx(0.82) and falling == sorted(falling, reverse=True)
    assert falling[10] == pytest.approx(0.72 + 0.1 * 2.718281828**-4)
    assert ExitOptions(1.0, "softmax", 0.0).threshold_at(3, 10) == 1.0


def test_prefixes_are_kept_token_by_token():
    model = toy_early_exit(every=True)
    prefix = torch.tensor([[5, 6], [7, PAD]])
    generator = make(model, CASES["softmax"])
    first, second = decode(generator, make_sample(SENTENCES[:2]), prefix)
    assert first["tokens"][:2].tolist() == [5, 6] and second["tokens"][0] == 7


def test_the_log_says_how_many_left():
    generator = make(toy_early_exit(every=True), CASES["all at once"])
    decode(generator, make_sample(SENTENCES))
    words = "100.0% of the tokens left early, after 1.00 layers on average"
    assert words in generator.stats.summary("calm")


REFUSED = [
    (lambda: make(toy_model(), CASES["softmax"]), "--path holds a TransformerModel"),
    (
        lambda: make_generator("calm", models=[toy_early_exit(), toy_early_exit("pre_norm")]),
        "--path: 2 models",
    ),
    (lambda: make(toy_early_exit(), (1.5, "softmax", None)), "--exit-threshold 1.5"),
    (lambda: make(toy_early_exit(), (0.5, "state", None)), "--exit-confidence state"),
    (lambda: make(toy_early_exit(), (0.5, "softmax", -1.0)), "--exit-decay -1.0"),
    (lambda: make_generator("greedy", exit_threshold=0.5), "--exit-threshold: --strategy greedy"),
]


@pytest.mark.parametrize("ask, message", REFUSED, ids=[message for _, message in REFUSED])
def test_what_cannot_be_done_is_refused_by_name(ask, message):
    with pytest.raises(ValueError) as caught:
        ask()
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)
