"""Big Little Decoder, with a small model and with the verifier's first layers, against Algorithm 1
of Kim et al. 2023, without cache or batch."""

import pytest
import torch
from slow_bild import INFINITY, THRESHOLDS, big_little, first_layers, whole
from slow_bild import check as check_slow
from toy_early_exit import toy_early_exit
from toy_strategies import flags, stock
from toy_strategies import make_generator as make_toy
from toy_strategies import tokens as tokens_of
from toy_translation import assert_diverse, make_sample, make_task, sentences, toy_model

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import build_generator

SENTENCES = sentences(8, seed=7)


def small():
    """Trained less: right often, and often wrongly sure."""
    return toy_model(seed=2, updates=150)


def make_generator(alpha_fb, alpha_rb, **changes):
    words = make_task().tgt_dict
    settings = decoding_settings(
        strategy="bild", drafter_path=__file__, alpha_fb=alpha_fb, alpha_rb=alpha_rb
    )
    return build_generator(
        [toy_model()], words, words, flags(**changes), settings, load=lambda *_: small()
    )


def check(alpha_fb, alpha_rb, limit=63):
    """Ours equals the slow one, in tokens and in steps; returns both."""
    slow = [
        big_little(whole(small()), whole(toy_model()), s, alpha_fb, alpha_rb, limit=limit)
        for s in SENTENCES
    ]
    generator = make_generator(alpha_fb, alpha_rb, max_len_b=limit)
    return check_slow(generator, slow, make_sample(SENTENCES))


def greedy(model):
    return tokens_of(stock([model], make_sample(SENTENCES), flags()))


def check_early_exit(model, alpha_fb, alpha_rb):
    slow = [big_little(first_layers(model), whole(model), s, alpha_fb, alpha_rb) for s in SENTENCES]
    generator = make_toy("bild-early-exit", models=[model], alpha_fb=alpha_fb, alpha_rb=alpha_rb)
    return check_slow(generator, slow, make_sample(SENTENCES))


@pytest.mark.parametrize("early_exit", [False, True])
@pytest.mark.parametrize("alpha_fb, alpha_rb", THRESHOLDS)
def test_equals_algorithm_1(alpha_fb, alpha_rb, early_exit):
    verifier = toy_early_exit() if early_exit else toy_model()
    given = alpha_fb, alpha_rb
    tokens, stats = check_early_exit(verifier, *given) if early_exit else check(*given)
    assert_diverse(tokens)
    if alpha_fb == 1:  # always fall back
        assert stats.drafted == 0
    if alpha_fb == 1 or alpha_rb == 0:  # roll back everything
        assert tokens == greedy(verifier)
    if (alpha_fb, alpha_rb) == (0.0, INFINITY):  # never fall back, never roll back
        assert stats.rollbacks == 0
        assert early_exit or (stats.mean_iterations < 2 and stats.unverified > 0)
    if (alpha_fb, alpha_rb) == (0.6, 0.2 if early_exit else 2.0):
        assert 0 < stats.rollback_share < stats.fallback_share < 0.7


def test_shares_are_those_of_the_algorithms_steps():
    """Table 4: of all turns of Algorithm 1's loop, those that call the big model, or roll back."""
    _, stats = check(0.5, 0.05)
    slow = [big_little(whole(small()), whole(toy_model()), s, 0.5, 0.05)[1] for s in SENTENCES]
    steps = sum(count.small + count.big for count in slow)
    figures = stats.as_dict()
    assert figures["fallback_share"] == pytest.approx(sum(c.big for c in slow) / steps)
    assert figures["rollback_share"] == pytest.approx(sum(c.rollbacks for c in slow) / steps)
    assert figures["rollbacks"] > 0
    assert figures["unverified"] == sum(c.unverified for c in slow) > 0


def test_sampling_draws_both_models_tokens_and_seeds_reproduce():
    def sample(seed, **thresholds):
        torch.manual_seed(seed)
        generator = make_generator(**thresholds, sampling=True, sampling_topp=0.8)
        ranked = generator.generate([toy_model()], make_sample(SENTENCES))
        return [h[0]["tokens"].tolist() for h in ranked], generator.stats

    given = {"alpha_fb": 0.5, "alpha_rb": 2.0}
    once, stats = sample(1, **given)
    assert sample(1, **given)[0] == once != sample(2, **given)[0]
    assert 0 < stats.accepted < stats.emitted
    # With one token in the nucleus there is nothing to draw.
    torch.manual_seed(1)
    generator = make_generator(**given, sampling=True, sampling_topp=1e-6)
    ranked = generator.generate([toy_model()], make_sample(SENTENCES))
    assert [h[0]["tokens"].tolist() for h in ranked] == check(**given)[0]


def test_an_early_exit_needs_a_model_that_has_one():
    with pytest.raises(ValueError, match="--path.*early_exit_transformer"):
        make_toy("bild-early-exit", models=[toy_model()])
