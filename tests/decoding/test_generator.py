"""``SpeculativeGenerator`` is used like stock's generator, and nothing on it changes."""

import copy
import dataclasses
import gc
import inspect
import weakref

import pytest
import torch
from fairseq.search import BeamSearch
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from toy_strategies import cases, decode, flags, make_generator, tokens, toys, verifying
from toy_translation import EOS, FIRST, make_sample, make_task, sentences, toy_model

from fairseq_specdec.decoding.generator import SpeculativeGenerator
from fairseq_specdec.decoding.options import DecodingOptions
from fairseq_specdec.engine.native.library import load

SENTENCES = sentences(12, seed=7)
FLAGS = [
    {},
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


def test_has_the_methods_of_a_stock_generator():
    own = public(name for name, value in vars(SequenceGenerator).items() if callable(value))
    assert {"generate", "generate_batched_itr", "forward", "cuda"} <= own
    for name in own:
        theirs = inspect.signature(getattr(SequenceGenerator, name)).parameters
        ours = inspect.signature(getattr(SpeculativeGenerator, name)).parameters
        named = [p for p in theirs.values() if p.kind is not p.VAR_KEYWORD]
        assert list(ours)[: len(named)] == [p.name for p in named], name
        assert all(ours[p.name].default == p.default for p in named), name


def same(outputs, expected):
    assert [h["tokens"].tolist() for h in outputs] == [h["tokens"].tolist() for h in expected]
    for mine, other in zip(outputs, expected):
        assert torch.equal(mine["positional_scores"], other["positional_scores"])
        assert float(mine["score"]) == float(other["score"])
        assert mine["steps"] == other["steps"]


@pytest.mark.parametrize("case", cases())
def test_forward_gives_what_generate_gives(case):
    generator = make_generator(case)
    for sample in (make_sample(SENTENCES[:5]), make_sample(SENTENCES[5:])):
        same([h for (h,) in generator(sample)], decode(generator, sample))


def test_forward_heeds_prefixes_and_the_start_symbol():
    generator = make_generator("gad", flags(max_len_b=8))
    sample, prefix = make_sample(SENTENCES), torch.full((12, 2), 7)
    for given in ({"prefix_tokens": prefix}, {"bos_token": 9}, {}):
        expected = generator.generate(generator.models, sample, **given)
        same([h for (h,) in generator(sample, **given)], [h for (h,) in expected])
    assert all(output[:2] == [7, 7] for output in tokens(h for (h,) in generator(sample, prefix)))
    other, usual = (tokens(h for (h,) in generator(sample, bos_token=b)) for b in (9, EOS))
    assert other != usual == tokens(decode(generator, sample))


def test_options_are_frozen():
    generator = make_generator("gad")
    assert isinstance(generator.options, DecodingOptions)
    for options in (generator.options, generator.drafter.options):
        for field in dataclasses.fields(options):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(options, field.name, None)
    with pytest.raises(AttributeError):
        generator.policy.min_len = 9
    with pytest.raises(AttributeError):
        generator.models = []
    given = generator.models
    given.clear()
    assert len(generator.models) == 1


def held(generator):
    """Every attribute of what a generator decodes with, by owner and name."""
    owners = {"generator": generator, "drafter": generator.drafter, "rule": generator.rule}
    owners.update(policy=generator.policy, options=generator.options, model=generator.model)
    attributes = {}
    for owner, one in owners.items():
        slots = getattr(one, "_fields", None) or vars(one)
        attributes.update({(owner, name): getattr(one, name) for name in slots})
    return attributes


@pytest.mark.parametrize("lossless", [True, False])
@pytest.mark.parametrize("case", cases())
def test_decoding_reassigns_nothing(case, lossless):
    if lossless and toys(case).lossless is None:
        pytest.skip("never lossless")
    generator = make_generator(case, lossless=lossless, draft_budget=None)
    fresh = held(generator)
    decode(generator, make_sample(SENTENCES[:2]))
    read = held(generator)
    changed = {key for key in fresh if read[key] is not fresh[key]}
    # The weights are read before the first batch.
    assert changed == {("generator", "_parts")}
    assert set(read) == set(fresh)
    prefix = torch.full((12, 3), 7) if case in verifying() else None
    for sample, forced in ((make_sample(SENTENCES), None), (make_sample(SENTENCES), prefix)):
        decode(generator, sample, forced)
        after = held(generator)
        assert set(after) == set(read)
        assert [key for key in read if after[key] is not read[key]] == []


@pytest.mark.parametrize("shape", [(11, 2), (13, 2), (12,)])
@pytest.mark.parametrize("beam", [1, 2])
def test_prefixes_of_other_sentences_are_refused(beam, shape):
    generator, prefix = make_generator("greedy", flags(beam)), torch.full(shape, 7)
    with pytest.raises(ValueError, match=r"^prefix_tokens: shape .* a batch of 12 sentences"):
        decode(generator, make_sample(SENTENCES), prefix)


def test_a_prefix_may_be_a_slice_and_of_any_integers():
    generator, sample = make_generator("greedy"), make_sample(SENTENCES)
    wide = torch.full((12, 6), 7)
    expected = tokens(decode(generator, sample, wide[:, :2].contiguous()))
    for given in (wide[:, :2], wide[:, :2].int()):
        assert tokens(decode(generator, sample, given)) == expected


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


def test_the_figures_know_what_the_native_library_computes():
    for backend in ("torch", "auto"):
        generator = make_generator("greedy", backend=backend)
        decode(generator, make_sample(SENTENCES[:2]))
        native = backend == "auto" and load() is not None
        assert bool(generator.parts().verifier.nbytes) == native


@pytest.mark.parametrize("backend", ["torch", "auto"])
@pytest.mark.parametrize(
    "case, beam",
    [*((case, 1) for case in ("greedy", "gad", "gad-attached", "sps", "blockwise", "nar")),
     *((case, 3) for case in ("greedy", "iad"))],
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
