"""A limit of each sentence's own length: in any batch it is decoded as alone."""

import functools

import pytest
import torch
from pairwise import half
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
BACKENDS = ["torch"] + ["native"] * (load() is not None)
# Outputs are a third longer than their sources: the first of these bites most of them.
LIMITS = {
    "short": {"max_len_a": 1.0, "max_len_b": 0},
    "long enough for some": {"max_len_a": 1.2, "max_len_b": 3},
    "of one length": {"max_len_a": 0.8, "max_len_b": 2, "min_len": 3},
}
# "none" is greedy, "specdec" is gad++.
CASES = [case for case in verifying() if case not in ("none", "specdec")]
SEARCHED = ["greedy", "iad", "lookup", "gad", "gad-attached", "sps"]
CHANGING = [
    "gad++", "blockwise", "specdec-heads", "bild", "bild-early-exit", "nar",
]  # fmt: skip


def own(case, args, lossless=True, **settings):
    overrides = Overrides(own_limits=True, keep_trace=True)
    return make_generator(case, args, None, lossless, overrides=overrides, **settings)


@functools.cache
def alone(verifier, name, beam, prefixed):
    """The hypotheses of fairseq, which decodes each sentence alone."""
    prefix = forced_here_and_there(len(SENTENCES)) if prefixed else None
    return [
        stock_beams(
            [verifier()], make_sample([one]), flags(beam, **LIMITS[name]),
            None if prefix is None else prefix[row : row + 1],
        )[0]
        for row, one in enumerate(SENTENCES)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "prefixed, name, backend, case, beam",
    [
        *half([False, True], ["short", "of one length"], BACKENDS, CASES, [1]),
        *half([False, True], [*LIMITS], BACKENDS, SEARCHED, [5]),
    ],
)
def test_a_batch_equals_fairseq_on_each_sentence_alone(
    prefixed, name, backend, case, beam, monkeypatch
):
    look_ahead(monkeypatch, Reach(4, 5))
    args, sample, verifier = (
        flags(beam, **LIMITS[name]),
        make_sample(SENTENCES),
        toys(case).verifier,
    )
    prefix = forced_here_and_there(len(SENTENCES)) if prefixed else None
    generator = own(case, args, backend=backend)
    outputs = generator.generate(generator.models, sample, prefix_tokens=prefix)
    expected = alone(verifier, name, beam, prefixed)
    check_beams(outputs, expected)
    if beam == 1 and name == "short" and not prefixed:
        # It matters: the batch's longest source gives others.
        usual = stock([verifier()], sample, args)
        assert tokens(one for (one,) in expected) != tokens(usual)
        limits = [int(args.max_len_a * (len(one) + 1) + args.max_len_b) for one in SENTENCES]
        for (output,), limit in zip(outputs, limits):
            assert all(one.position + len(one.draft) <= limit for one in output["iterations"])


@pytest.mark.parametrize("prefixed", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", CHANGING)
def test_where_drafts_change_the_output_a_batch_gives_what_its_sentences_give(
    case, backend, prefixed
):
    if prefixed and case == "nar":
        pytest.skip("keeps no prefix")
    args = flags(max_len_a=2, max_len_b=3) if prefixed else flags(**LIMITS["short"])
    prefix = forced_here_and_there(len(SENTENCES)) if prefixed else None
    generator = own(case, args, lossless=False, backend=backend)
    apart = [
        decode(generator, make_sample([one]), prefix if prefix is None else prefix[row : row + 1])[
            0
        ]
        for row, one in enumerate(SENTENCES)
    ]
    together = decode(generator, make_sample(SENTENCES), prefix)
    check(together, apart)
    assert [h["steps"] for h in together] == [h["steps"] for h in apart]


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
    same = LengthLimits(14, 14)  # one limit for all needs no tensor
    assert limits_of([3, 9], max_len_b=14) == same
    assert limits_of([8, 8], max_len_a=1.5, max_len_b=2) == same
    assert same.select(torch.tensor([1])) is same and same.listed(2) == [14, 14]
    with pytest.raises(ValueError, match="--min-len 1 is larger than the length limit 0 "):
        limits_of([1, 9], max_len_a=0.5, max_len_b=0)
