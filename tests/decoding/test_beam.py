"""The exactness contract of beam search: every hypothesis is stock's, with its scores."""

import copy

import pytest
import torch
from drafted import activated
from fairseq.search import BeamSearch
from toy_strategies import check_beams, flags, look_ahead, make_generator, stock_beams
from toy_translation import EOS, SHAPES, assert_diverse, make_sample, sentences, toy_model

from fairseq_specdec.decoding.beam.lookahead import Reach
from fairseq_specdec.decoding.beam.search import BeamBatch
from fairseq_specdec.engine.devices import PACKED
from fairseq_specdec.engine.native.library import load

SENTENCES = sentences(16, seed=7)


def generator_of(models, args, strategy="greedy", **settings):
    return make_generator(strategy, args, models, draft_budget=None, **settings)


def ours(models, sample, args, **settings):
    return generator_of(models, args, **settings).generate(models, sample)


@pytest.mark.parametrize("models, changes", [
    *(([shape], {}) for shape in SHAPES),
    (["learned"], {"max_len_b": 200, "min_len": 50}),
], ids=str)  # fmt: skip
def test_equals_stock(models, changes):
    """Of every shape, and up to the last position; test_parity.py has the rest."""
    chosen = SENTENCES[:3] if changes else SENTENCES
    sample, args = make_sample(chosen, left=False), flags(5, **changes)
    models = list(map(toy_model, models))
    expected = stock_beams(models, sample, args)
    for backend in ("torch", "auto"):
        check_beams(ours(models, sample, args, backend=backend), expected)
    if not changes:
        assert_diverse([h["tokens"].tolist() for ranked in expected for h in ranked])


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize("beam", [1, 3])
def test_a_word_that_equals_the_end_matters_at_one_place(beam, backend, monkeypatch):
    """Hypotheses differ only where such a tie spans the places N and N + 1; at beam 1 nowhere."""
    model, args, ties, step = copy.deepcopy(toy_model()), flags(beam), [], BeamSearch.step
    with torch.no_grad():
        model.decoder.embed_tokens.weight[9] = model.decoder.embed_tokens.weight[EOS]

    def watched(*given, **more):
        scores, tokens, beams = step(*given, **more)
        last, after = scores[:, beam - 1], scores[:, beam]
        ties.append(((last == after) & (tokens[:, beam - 1 : beam + 1] == EOS).any(1)).any())
        return scores, tokens, beams

    monkeypatch.setattr(BeamSearch, "step", watched)
    tied = 0
    for sentence in sentences(40, seed=7):
        ties.clear()
        expected = stock_beams([model], make_sample([sentence]), args)
        tied += any(ties)
        if beam == 1 or not any(ties):
            check_beams(ours([model], make_sample([sentence]), args, backend=backend), expected)
    assert tied == 40 if beam == 1 else 0 < tied < 40


@pytest.mark.skipif(load() is None, reason="no native library here")
@pytest.mark.parametrize("number_format", PACKED)
@pytest.mark.parametrize(
    "shape, activation",
    [("post_norm", "relu"), ("pre_norm", "gelu"), ("layernorm_embedding", "gelu_accurate"),
     ("narrow_output", "tanh"), ("no_positions", "swish")],
)  # fmt: skip
def test_natively_all_bits_are_those_of_the_search_without_drafts(
    shape, activation, number_format, monkeypatch
):
    """In every number format; and those of the sentence alone."""
    models, args = [activated(toy_model(shape), activation)], flags(4)

    def bits(strategy, chosen):
        sample = make_sample(chosen)
        outputs = ours(models, sample, args, strategy=strategy, verifier_dtype=number_format)
        return [
            [(h["tokens"].tolist(), h["positional_scores"].tolist()) for h in hypotheses]
            for hypotheses in outputs
        ]

    expected = bits("greedy", SENTENCES)
    for reach in [(1, 2), (30, 100)]:
        look_ahead(monkeypatch, Reach(*reach))
        assert bits("iad", SENTENCES) == expected
        assert [bits("iad", [sentence])[0] for sentence in SENTENCES[:6]] == expected[:6]


def test_slots_of_dropped_prefixes_are_used_again():
    """The row stays about as long as the hypotheses, not as all that was looked at."""
    models, args = [toy_model()], flags(5, min_len=30, max_len_b=30)
    generator = generator_of(models, args, backend="torch")
    with generator.batch(models, make_sample(SENTENCES)) as batch:
        assert isinstance(batch, BeamBatch)
        while batch.live:
            batch.iterate()
            assert max(s.slots for s in batch.sentences) < 120  # of 151 prefixes
    assert batch.stats.iterations == 31 * len(SENTENCES)
