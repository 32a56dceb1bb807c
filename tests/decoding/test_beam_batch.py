"""A batch of beam searches: hypotheses, counts, how far it looks ahead, what stops it."""

import gc
import weakref
from ctypes import byref, c_float, c_int64

import pytest
import torch
from toy_strategies import flags, look_ahead, make_generator
from toy_translation import EOS, make_sample, sentences, toy_model

from fairseq_specdec.decoding.beam.native import NativeBeams
from fairseq_specdec.decoding.beam.torch_beams import TorchBeams
from fairseq_specdec.engine.native.library import Library, load

SENTENCES = sentences(5, seed=7)
BACKENDS = ["torch"] + ["native"] * (load() is not None)
natively = pytest.mark.skipif(load() is None, reason="no native library here")
# Of one, three and no tokens; the last two with any token before or between.
PREFIX = torch.tensor([[5, 1, 1], [6, 7, 8], [1, 1, 1], [1, 9, 1], [4, 1, 5]])
ENDED = PREFIX.clone()
ENDED[::3, -1] = EOS


def make(args=None, models=None, strategy="greedy", backend="torch", draft_budget=None):
    given = {"backend": backend, "draft_budget": draft_budget}
    return make_generator(strategy, args or flags(3), models, **given)


def decode(generator, prefix=None, chosen=SENTENCES):
    return generator.generate(generator.models, make_sample(chosen), prefix_tokens=prefix)


def counts(stats):
    """The counters, without times."""
    return {name: value for name, value in vars(stats).items() if isinstance(value, int)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_counts_are_of_what_was_done(backend, monkeypatch):
    """And each sentence by itself does the same."""
    look_ahead(monkeypatch, 3, 4)
    generator, alone = (make(strategy="iad", backend=backend) for _ in range(2))
    outputs, stats = decode(generator), generator.stats
    assert stats.sentences == len(SENTENCES)
    assert stats.iterations == sum(h[0]["steps"] for h in outputs)
    if backend == "native":
        assert stats.scored > stats.drafted > stats.accepted > 0
    assert stats.emitted >= sum(max(len(h["tokens"]) for h in ranked) for ranked in outputs)
    for sentence in SENTENCES:
        decode(alone, chosen=[sentence])
    assert counts(alone.stats) == counts(stats)
    assert all(one["steps"] == row[0]["steps"] for row in outputs for one in row)
    assert stats.stopwatch.seconds["verifier"] > 0 and stats.total_seconds > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trace_is_of_the_best_hypothesis_alone(backend):
    generator = make(flags(3, retain_iter_history=True), backend=backend)
    for best, *others in decode(generator):
        # Callers may write to them.
        assert not any(one[name].is_inference() for one in others for name in ("tokens", "score"))
        parts = best["iterations"]
        assert len(parts) == best["steps"] and not any(one["iterations"] for one in others)
        assert [token for part in parts for token in part.emitted] == best["tokens"].tolist()
        for number, part in enumerate(parts):
            assert part.position == sum(len(before.emitted) for before in parts[:number])
            assert (part.draft, part.accepted, part.drafter_ms) == ([], 0, 0)
            assert 0 < part.ms == part.verifier_ms < 1000 * generator.stats.total_seconds
        assert parts[0].rows == len(SENTENCES)
    assert all(not one["iterations"] for row in decode(make(backend=backend)) for one in row)


@natively
@pytest.mark.parametrize("prefix", [None, PREFIX, ENDED], ids=["free", "forced", "ended"])
@pytest.mark.parametrize("limit", [200, 4])
def test_a_trace_has_what_all_hypotheses_agree_on(limit, prefix):
    """The same after each pass on both backends."""
    args, agreed = flags(3, retain_iter_history=True, max_len_b=limit), []
    for backend in ("torch", "native"):
        outputs = decode(make(args, backend=backend), prefix)
        agreed.append([[part.emitted for part in best["iterations"]] for best, *_ in outputs])
    assert agreed[0] == agreed[1]
    assert any(part for parts in agreed[0] for part in parts[:-1])


@natively
@pytest.mark.parametrize("prefix, limit, expected", [
    (None, 200, (30, 38, 223, 170, 48)), (None, 4, (21, 24, 130, 87, 17)),
    (PREFIX, 200, (26, 42, 195, 136, 46)), (PREFIX, 4, (16, 24, 75, 33, 10)),
    (ENDED, 200, (23, 38, 166, 113, 40)), (ENDED, 4, (13, 21, 57, 21, 7)),
])  # fmt: skip
def test_how_far_the_library_looks_ahead(prefix, limit, expected, monkeypatch):
    """Pinned: on toys trained for longer, a search in Python had the same counts as the library."""
    look_ahead(monkeypatch, 3, 4)
    generator = make(flags(3, max_len_b=limit), backend="native", strategy="iad")
    decode(generator, prefix)
    stats = generator.stats
    found = stats.iterations, stats.emitted, stats.scored, stats.drafted, stats.accepted
    assert found == expected


@natively
def test_a_search_that_is_over_is_freed(monkeypatch):
    made, make_one = [], Library.make

    def noted(self, owner, what, *arguments, **more):
        made.append((weakref.ref(owner), what))
        return make_one(self, owner, what, *arguments, **more)

    monkeypatch.setattr(Library, "make", noted)
    generator = make(backend="native")
    with generator.batch(generator.models, make_sample(SENTENCES)) as batch:
        assert isinstance(batch, NativeBeams)
    (search,) = [owner for owner, what in made if what == "beams"]
    assert search() is not None
    del batch
    gc.collect()
    assert search() is None  # with whom it is freed


@natively
def test_no_more_tokens_are_written_than_there_is_room_for():
    generator = make(backend="native")
    tokens, scores = (c_int64 * 9)(*[-1] * 9), (c_float * 9)(*[-1] * 9)

    def ask(ended, room):
        with pytest.raises(ValueError, match="more tokens than there is room for"):
            batch.ask("hypothesis", 0, ended, 0, room, tokens, scores, byref(c_int64()))

    with generator.batch(generator.models, make_sample(SENTENCES)) as batch:
        batch.iterate(3)
        ask(False, 2)
        while batch.live:
            batch.iterate(9)
        ask(True, 0)
    assert list(tokens) == list(scores) == [-1] * 9


@natively
@pytest.mark.parametrize("models, blocked, kind", [
    (1, 0, NativeBeams), (1, 1, TorchBeams), (1, 2, TorchBeams), (2, 0, TorchBeams)
])  # fmt: skip
@pytest.mark.parametrize("prefix", [None, torch.full((len(SENTENCES), 1), 5)])
def test_what_the_library_does_not_search_is_replayed(models, blocked, kind, prefix):
    ensemble = [toy_model(), toy_model("pre_norm")][:models]
    generator = make(flags(3, no_repeat_ngram_size=blocked), ensemble, backend="native")
    with generator.batch(generator.models, make_sample(SENTENCES), prefix) as batch:
        assert type(batch) is kind
