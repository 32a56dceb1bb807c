"""A limit of each sentence's own length: in any batch it is decoded as alone."""

import functools

import pytest
import torch
from toy_strategies import (
    check,
    check_beams,
    decode,
    flags,
    forced_here_and_there,
    look_ahead,
    make_generator,
    stock,
    stock_beams,
    tokens,
    toys,
    verifying,
)
from toy_translation import PAD, make_sample, sentences, toy_model

from fairseq_specdec.decoding.beam.lookahead import Reach
from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.policy import DecodingConstraints, LengthLimits
from fairseq_specdec.engine.native.library import load

SENTENCES = sentences(14, seed=21, longest=16)
BACKENDS = [
    "torch",
    pytest.param(
        "native", marks=pytest.mark.skipif(load() is None, reason="no native library here")
    ),
]
# Outputs are a third longer than their sources: the first of these bites most of them.
LIMITS = {
    "short": {"max_len_a": 1.0, "max_len_b": 0},
    "long enough for some": {"max_len_a": 1.2, "max_len_b": 3},
    "of one length": {"max_len_a": 0.8, "max_len_b": 2, "min_len": 3},
}

# "none" is greedy, "specdec" is gad++.
CASES = [case for case in verifying() if case not in ("none", "specdec")]
CHANGING = [
    "gad++", "gad++-budget", "blockwise", "specdec-heads", "bild", "bild-early-exit", "nar",
]  # fmt: skip


def own(case, args, models=None, lossless=True, **settings):
    overrides = Overrides(own_limits=True, keep_trace=True)
    return make_generator(case, args, models, lossless, overrides=overrides, **settings)


@functools.cache
def alone(verifier, name, beam, prefixed=False):
    """The hypotheses of fairseq, which decodes each sentence alone."""
    prefix = forced_here_and_there(len(SENTENCES)) if prefixed else None
    return [
        stock_beams(
            [verifier()], make_sample([one]), flags(beam, **LIMITS[name]),
            None if prefix is None else prefix[row : row + 1],
        )[0]
        for row, one in enumerate(SENTENCES)
    ]  # fmt: skip


def best(hypotheses):
    return [ranked[0] for ranked in hypotheses]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "case, name",
    [*((case, "short") for case in CASES), *(("gad", name) for name in LIMITS if name != "short")],
)
def test_each_row_of_a_batch_equals_fairseq_on_the_sentence_alone(case, backend, name):
    args, verifier = flags(**LIMITS[name]), toys(case).verifier
    expected = best(alone(verifier, name, 1))
    outputs = decode(own(case, args, backend=backend), make_sample(SENTENCES))
    check(outputs, expected)
    # It matters: the batch's longest source gives others.
    assert tokens(expected) != tokens(stock([verifier()], make_sample(SENTENCES), args))
    limits = [int(args.max_len_a * (len(one) + 1) + args.max_len_b) for one in SENTENCES]
    for output, limit in zip(outputs, limits):
        assert all(one.position + len(one.draft) <= limit for one in output["iterations"])


@pytest.mark.parametrize("prefixed", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", ["greedy", "iad", "lookup", "gad", "gad-attached", "sps"])
def test_beams_of_a_batch_equal_fairseq_on_the_sentence_alone(case, backend, prefixed, monkeypatch):
    look_ahead(monkeypatch, Reach(4, 5))
    prefix = forced_here_and_there(len(SENTENCES)) if prefixed else None
    for name in LIMITS:
        generator = own(case, flags(5, **LIMITS[name]), backend=backend)
        sample = make_sample(SENTENCES)
        outputs = generator.generate(generator.models, sample, prefix_tokens=prefix)
        check_beams(outputs, alone(toys(case).verifier, name, 5, prefixed))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", ["greedy", "iad", "gad", "sps"])
def test_prefixes_end_at_the_limit_of_their_row(case, backend):
    prefix = forced_here_and_there(len(SENTENCES))
    outputs = decode(
        own(case, flags(**LIMITS["of one length"]), backend=backend), make_sample(SENTENCES), prefix
    )
    check(outputs, best(alone(toys(case).verifier, "of one length", 1, True)))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CHANGING)
def test_where_drafts_change_the_output_a_batch_gives_what_its_sentences_give(case, backend):
    for name in LIMITS:
        generator = own(case, flags(**LIMITS[name]), lossless=False, backend=backend)
        together = decode(generator, make_sample(SENTENCES))
        check(together, [decode(generator, make_sample([one]))[0] for one in SENTENCES])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", [case for case in CHANGING if case != "nar"])
def test_rows_with_and_without_a_prefix_give_what_they_give_alone(case, backend):
    prefix = forced_here_and_there(len(SENTENCES))
    assert prefix[:, 0].eq(PAD).any()
    generator = own(case, flags(max_len_a=2, max_len_b=3), lossless=False, backend=backend)
    alone = [
        decode(generator, make_sample([one]), prefix[row : row + 1])[0]
        for row, one in enumerate(SENTENCES)
    ]
    together = decode(generator, make_sample(SENTENCES), prefix)
    check(together, alone)
    assert [h["steps"] for h in together] == [h["steps"] for h in alone]


def test_by_default_the_longest_source_gives_the_limit():
    args = flags(**LIMITS["short"])
    expected = stock([toy_model()], make_sample(SENTENCES), args)
    check(decode(make_generator("greedy", args), make_sample(SENTENCES)), expected)


def limits_of(lengths, **changes):
    policy = DecodingConstraints(PAD, 3, 2, own_limits=True, **changes)
    net_input = {
        "src_tokens": torch.zeros(len(lengths), max(lengths)),
        "src_lengths": torch.tensor(lengths),
    }
    return policy.length_limits(net_input)


def test_limits_are_of_the_lengths_and_within_the_positions():
    limits = limits_of([3, 9, 40], max_len_a=1.5, max_len_b=2, max_positions=50)
    assert limits[:2] == (6, 49) and limits.listed(3) == [6, 15, 49]
    assert limits.of_entries.tolist() == [[6], [15], [49]]
    assert limits.select(torch.tensor([1])).listed(1) == [15]


def test_one_limit_for_all_needs_no_tensor():
    same = LengthLimits(14, 14)
    assert limits_of([3, 9], max_len_b=14) == same
    assert limits_of([8, 8], max_len_a=1.5, max_len_b=2) == same
    assert same.select(torch.tensor([1])) is same and same.listed(2) == [14, 14]


def test_a_sentence_whose_limit_is_below_the_minimum_length_is_refused():
    with pytest.raises(ValueError, match="--min-len 1 is larger than the length limit 0 "):
        limits_of([1, 9], max_len_a=0.5, max_len_b=0)
