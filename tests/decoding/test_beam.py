"""Beam search: ties, bits, and memory; test_parity.py compares all hypotheses with stock's."""

import copy

import pytest
import torch
from fairseq.search import BeamSearch
from fairseq.utils import get_activation_fn
from pairwise import half
from toy_strategies import bits, check_beams, flags, look_ahead, make_generator, stock_beams
from toy_translation import EOS, make_sample, sentences, toy_model

from fairseq_specdec.decoding.beam.search import BeamBatch
from fairseq_specdec.engine.devices import PACKED
from fairseq_specdec.engine.native.library import load

SENTENCES = sentences(16, seed=7)
# Each with another activation.
ACTIVATIONS = {
    "post_norm": "relu", "pre_norm": "gelu", "layernorm_embedding": "gelu_accurate",
    "narrow_output": "tanh", "no_positions": "swish",
}  # fmt: skip


def generator_of(models, args, strategy="greedy", **settings):
    return make_generator(strategy, args, models, draft_budget=None, **settings)


def ours(models, sample, args, **settings):
    return generator_of(models, args, **settings).generate(models, sample)


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
    for sentence in sentences(20, seed=7):
        ties.clear()
        expected = stock_beams([model], make_sample([sentence]), args)
        tied += any(ties)
        if beam == 1 or not any(ties):
            check_beams(ours([model], make_sample([sentence]), args, backend=backend), expected)
    assert tied == 20 if beam == 1 else 0 < tied < 20


@pytest.mark.skipif(load() is None, reason="no native library here")
@pytest.mark.parametrize("shape, number_format", half([*ACTIVATIONS], PACKED))
def test_natively_all_bits_are_those_of_the_search_without_drafts(
    shape, number_format, monkeypatch
):
    """In every number format; and those of the sentence alone."""
    model, args = copy.deepcopy(toy_model(shape)), flags(4)
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        layer.activation_fn = get_activation_fn(ACTIVATIONS[shape])
    models = [model]

    def decoded(strategy, chosen):
        sample = make_sample(chosen)
        outputs = ours(models, sample, args, strategy=strategy, verifier_dtype=number_format)
        return list(map(bits, outputs))

    expected = decoded("greedy", SENTENCES)
    for reach in [(1, 2), (30, 100)]:
        look_ahead(monkeypatch, *reach)
        assert decoded("iad", SENTENCES) == expected
        assert [decoded("iad", [sentence])[0] for sentence in SENTENCES[:4]] == expected[:4]


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
