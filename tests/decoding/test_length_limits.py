"""A limit of each sentence's own length: in any batch it is decoded as alone."""

import functools

import pytest
from pairwise import half
from toy_strategies import (
    TOYS,
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
    verifying,
)
from toy_translation import make_sample, sentences

from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.engine.native.library import load

SENTENCES = sentences(10, seed=21, longest=16)
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
    rows, args = len(SENTENCES), flags(beam, **LIMITS[name])
    prefixes = forced_here_and_there(rows).split(1) if prefixed else [None] * rows
    return [
        stock_beams([verifier()], make_sample([one]), args, prefix)[0]
        for one, prefix in zip(SENTENCES, prefixes)
    ]


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
    look_ahead(monkeypatch, 4, 5)
    args, sample = flags(beam, **LIMITS[name]), make_sample(SENTENCES)
    prefix = forced_here_and_there(len(SENTENCES)) if prefixed else None
    generator = own(case, args, backend=backend)
    outputs = generator.generate(generator.models, sample, prefix_tokens=prefix)
    expected = alone(TOYS[case].verifier, name, beam, prefixed)
    check_beams(outputs, expected)
    if beam == 1 and name == "short" and not prefixed:
        # It matters: the batch's longest source gives others.
        usual = stock(generator.models, sample, args)
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
    prefixes = [None] * len(SENTENCES) if prefix is None else prefix.split(1)
    apart = [decode(generator, make_sample([one]), p)[0] for one, p in zip(SENTENCES, prefixes)]
    together = decode(generator, make_sample(SENTENCES), prefix)
    check(together, apart)
    assert [h["steps"] for h in together] == [h["steps"] for h in apart]


def test_a_limit_below_the_minimum_is_refused():
    generator = own("greedy", flags(max_len_a=0.1, max_len_b=0))
    with pytest.raises(ValueError, match="--min-len 1 is larger than the length limit 0 "):
        decode(generator, make_sample([[4], [5] * 12]))
