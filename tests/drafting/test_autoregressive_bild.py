"""Big Little Decoder, with a small model and with the verifier's first layers, against Algorithm 1
of Kim et al. 2023, without cache or batch."""

import dataclasses
from argparse import Namespace

import pytest
import torch
from fairseq.dataclass.configs import GenerationConfig
from slow_bild import INFINITY, THRESHOLDS, big_little, first_layers, whole
from slow_bild import check as check_slow
from toy_early_exit import toy_early_exit
from toy_strategies import flags, stock
from toy_strategies import make_generator as make_toy
from toy_strategies import tokens as tokens_of
from toy_translation import assert_diverse, make_sample, make_task, sentences, toy_model

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import build_generator

SENTENCES = sentences(10, seed=7)


def big():
    return toy_model()


def small(shape="post_norm"):
    """Trained less: right often, and often wrongly sure."""
    return toy_model(shape, seed=2, updates=150)


def make_generator(alpha_fb, alpha_rb, size=None, shape="post_norm", **flags):
    words = make_task().tgt_dict
    args = Namespace(**dict(dataclasses.asdict(GenerationConfig()), **flags))
    settings = decoding_settings(
        strategy="bild", drafter_path=__file__, alpha_fb=alpha_fb, alpha_rb=alpha_rb,
        block_size=size,
    )  # fmt: skip
    return build_generator([big()], words, words, args, settings, load=lambda *_: small(shape))


def check(alpha_fb, alpha_rb, size=None, shape="post_norm", chosen=SENTENCES, left=True, **flags):
    """Ours equals the slow one, in tokens and in steps; returns both."""
    limit = flags.get("max_len_b", 63)
    slow = [
        big_little(whole(small(shape)), whole(big()), s, alpha_fb, alpha_rb, size or 10, limit)
        for s in chosen
    ]
    generator = make_generator(alpha_fb, alpha_rb, size, shape, **flags)
    return check_slow(generator, slow, make_sample(chosen, left))


def greedy(model):
    return tokens_of(stock([model], make_sample(SENTENCES), flags()))


def check_early_exit(model, alpha_fb, alpha_rb, size=None, chosen=SENTENCES):
    slow = [
        big_little(first_layers(model), whole(model), s, alpha_fb, alpha_rb, size or 10)
        for s in chosen
    ]
    given = {"alpha_fb": alpha_fb, "alpha_rb": alpha_rb, "block_size": size}
    generator = make_toy("bild-early-exit", models=[model], **given)
    return check_slow(generator, slow, make_sample(chosen))


@pytest.mark.parametrize("early_exit", [False, True])
@pytest.mark.parametrize("alpha_fb, alpha_rb", THRESHOLDS)
def test_equals_algorithm_1(alpha_fb, alpha_rb, early_exit):
    verifier = toy_early_exit() if early_exit else big()
    tokens, stats = (
        check_early_exit(verifier, alpha_fb, alpha_rb) if early_exit else check(alpha_fb, alpha_rb)
    )
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


def test_a_deeper_early_exit_equals_algorithm_1():
    """Of a batch, and of sentences alone."""
    model = toy_early_exit("pre_norm", 2, updates=120)
    assert check_early_exit(model, 0.3, 2.0)[1].accepted > 0
    for sentence in SENTENCES[:4]:
        check_early_exit(model, 0.5, 1.0, 3, [sentence])
    with pytest.raises(ValueError, match="--path.*early_exit_transformer"):
        check_early_exit(toy_model(), 0.6, 2.0, chosen=[])


@pytest.mark.parametrize("limit", [1, 6])
def test_the_length_limit_ends_drafts_too(limit):
    tokens, _ = check(0.3, 3.0, max_len_b=limit)
    assert max(map(len, tokens)) == limit + 1


def test_shares_are_those_of_the_algorithms_steps():
    """Table 4: of all turns of Algorithm 1's loop, those that call the big model, or roll back."""
    _, stats = check(0.5, 0.05)
    slow = [big_little(whole(small()), whole(big()), s, 0.5, 0.05)[1] for s in SENTENCES]
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
        ranked = generator.generate([big()], make_sample(SENTENCES))
        return [h[0]["tokens"].tolist() for h in ranked], generator.stats

    given = {"alpha_fb": 0.5, "alpha_rb": 2.0}
    once, stats = sample(1, **given)
    assert sample(1, **given)[0] == once != sample(2, **given)[0]
    assert 0 < stats.accepted < stats.emitted
    # With one token in the nucleus there is nothing to draw.
    torch.manual_seed(1)
    generator = make_generator(**given, sampling=True, sampling_topp=1e-6)
    ranked = generator.generate([big()], make_sample(SENTENCES))
    assert [h[0]["tokens"].tolist() for h in ranked] == check(**given)[0]


@pytest.mark.parametrize("flag, least", [("min_len", 12), ("no_repeat_ngram_size", 2)])
def test_an_ending_that_constraints_forbid_is_verified(flag, least):
    generator = make_generator(0.0, INFINITY, **{flag: least, "max_len_b": 30})
    ranked = generator.generate([big()], make_sample(SENTENCES))
    for tokens in (h[0]["tokens"].tolist()[:-1] for h in ranked):
        pairs = list(zip(tokens, tokens[1:]))
        assert len(tokens) >= 12 if flag == "min_len" else len(set(pairs)) == len(pairs)
    assert generator.stats.iterations > generator.stats.unverified
