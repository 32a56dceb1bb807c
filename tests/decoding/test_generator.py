"""``SpeculativeGenerator`` is used like stock's generator, and nothing on it changes."""

import copy
import gc
import weakref

import pytest
import torch
from fairseq.search import BeamSearch
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from toy_strategies import check_beams, decode, flags, make_generator, tokens
from toy_translation import FIRST, make_sample, make_task, sentences, toy_model

SENTENCES = sentences(12, seed=7)
FLAGS = [
    {"max_len_a": 0.5, "max_len_b": 9, "min_len": 2, "lenpen": 0.7, "unkpen": 1.5},
    {"temperature": 2.0, "unnormalized": True, "no_repeat_ngram_size": 3},
]
# What stock's attributes hold that are objects of their own in each generator.
OBJECTS = {
    "model": EnsembleModel,
    "search": BeamSearch,
    "repeat_ngram_blocker": None,
    "training": None,
}


def public(names):
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("extra", [None, {"eos": FIRST + 5}], ids=["eos", "another end"])
@pytest.mark.parametrize("changes", FLAGS, ids=str)
def test_has_the_attributes_of_a_stock_generator(changes, extra):
    args, models = flags(**changes), [toy_model(), toy_model("pre_norm")]
    theirs = make_task().build_generator(models, args, extra_gen_cls_kwargs=extra)
    ours = make_generator("greedy", args, models, extra=extra)
    assert type(theirs) is SequenceGenerator and isinstance(ours, SequenceGenerator)
    attributes = public([*vars(theirs), *theirs._modules])
    assert {"beam_size", "eos", "pad", "unk", "vocab_size", "max_len", "search"} <= attributes
    for name in attributes - set(OBJECTS):
        assert getattr(ours, name) == getattr(theirs, name), name
    for name, kind in OBJECTS.items():
        assert type(getattr(ours, name)) is (kind or type(getattr(theirs, name))), name
    assert list(ours.model.models) == ours.models == models
    assert ours.beam_size == 1 and ours.strategy == "greedy"


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize("beam", [1, 3])
def test_output_may_begin_after_another_symbol(beam, backend):
    sample, args = make_sample(SENTENCES), flags(beam)
    stock = make_task().build_generator([toy_model()], args)
    ours = make_generator("greedy", args, backend=backend)
    outputs, expected = (g.generate([toy_model()], sample, bos_token=9) for g in (ours, stock))
    check_beams(outputs, expected)
    check_beams(ours(sample, bos_token=9), expected)
    assert {*expected[0][0], "steps", "history", "iterations"} == {*outputs[0][0]}


@pytest.mark.parametrize("shape", [(11, 2), (13, 2), (12,)])
@pytest.mark.parametrize("beam", [1, 2])
def test_prefixes_of_other_sentences_are_refused(beam, shape):
    generator, prefix = make_generator("greedy", flags(beam)), torch.full(shape, 7)
    with pytest.raises(ValueError, match=r"^prefix_tokens: shape .* a batch of 12 sentences"):
        decode(generator, make_sample(SENTENCES), prefix)


def test_converted_models_are_read_again():
    """``generator.double()`` after a batch: the next one is computed in the new format."""
    sample = make_sample(sentences(6, seed=5))
    generator = make_generator("gad", models=[copy.deepcopy(toy_model())])
    before = decode(generator, sample)
    generator.double()
    after = decode(generator, sample)
    assert tokens(after) == tokens(before)
    changed = [not torch.equal(a["score"], b["score"]) for a, b in zip(after, before)]
    assert any(changed), "fp64 rounds elsewhere"


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize(
    "case, beam",
    [("greedy", 1), ("gad-attached", 1), ("sps", 1), ("blockwise", 1), ("nar", 1), ("iad", 3)],
)  # fmt: skip
def test_a_batch_that_is_over_frees_its_memory_at_once(case, beam, backend):
    """Without the collector of cycles, which a large process runs seldom."""
    generator = make_generator(case, flags(beam=beam), backend=backend)
    gc.collect()
    gc.disable()
    try:
        sample = make_sample(sentences(3, seed=1))
        with generator.batch(generator.models, sample) as batch:
            list(batch.results())
            parts = [weakref.ref(part) for part in (batch, batch.session, batch.drafts)]
        del batch
        assert [part() for part in parts] == [None, None, None]
    finally:
        gc.enable()
