"""A batch of beam searches: hypotheses, counts, how far it looks ahead, what stops it."""

import gc
import weakref
from ctypes import byref, c_float, c_int64

import pytest
import torch
from toy_strategies import flags, look_ahead, make_generator
from toy_translation import EOS, make_sample, sentences, toy_model

from fairseq_specdec.decoding.beam.lookahead import Reach, reach_of_budget, reach_with_torch
from fairseq_specdec.decoding.beam.native import NativeBeams
from fairseq_specdec.decoding.beam.torch_beams import TorchBeams
from fairseq_specdec.engine.native.library import Library, load
from fairseq_specdec.engine.native.structures import PrefixFacts

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
    look_ahead(monkeypatch, Reach(3, 4))
    generator, alone = (make(strategy="iad", backend=backend) for _ in range(2))
    outputs, stats = decode(generator), generator.stats
    assert stats.sentences == len(SENTENCES)
    assert stats.iterations == sum(h[0]["steps"] for h in outputs)
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
        assert parts[-1].live == 0 and parts[0].live == 3 and parts[0].rows == len(SENTENCES)
    assert all(not one["iterations"] for row in decode(make(backend=backend)) for one in row)


@pytest.mark.parametrize("rows, settings, reach", [
    (2, {"strategy": "greedy"}, None),
    (2, {}, reach_with_torch(2, False)),
    (21, {}, None),
    (2, {"draft_budget": 24}, reach_of_budget(24, 2, 4)),
    (21, {"draft_budget": 0}, reach_of_budget(0, 21, 4)),
])  # fmt: skip
def test_how_far_a_batch_looks_ahead(rows, settings, reach):
    """Each sentence copies its own source."""
    generator, chosen = make(flags(4), **{"strategy": "iad", **settings}), sentences(rows, seed=7)
    with generator.batch(generator.models, make_sample(chosen)) as batch:
        found = [(list(one.source), one.reach) for one in batch.lookaheads]
    expected = [([4 + word for word in sentence], reach) for sentence in chosen]
    assert found == (expected if reach else [])


@natively
@pytest.mark.parametrize("prefix", [None, PREFIX, ENDED], ids=["free", "forced", "ended"])
@pytest.mark.parametrize("limit", [200, 4])
def test_a_trace_has_the_same_drafts_on_both_backends(limit, prefix, monkeypatch):
    """Each prefix that a pass scored, whether it was, and whether it is kept for the next pass."""
    look_ahead(monkeypatch, Reach(3, 4))
    traces = []
    for backend in ("torch", "native"):
        args = flags(3, retain_iter_history=True, max_len_b=limit)
        outputs = decode(make(args, backend=backend, strategy="iad"), prefix)
        parts = [best["iterations"] for best, *_ in outputs]
        traces.append([[(part.beam, part.emitted) for part in each] for each in parts])
    drafted = [one for row in traces[1] for beam, _ in row for one in beam.draft]
    assert traces[0] == traces[1]
    assert len({one.kept for one in drafted}) > 1


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
    tokens, scores, facts = (c_int64 * 9)(*[-1] * 9), (c_float * 9)(*[-1] * 9), PrefixFacts()

    def ask(what, *arguments):
        with pytest.raises(ValueError, match="more tokens than there is room for"):
            batch.ask(what, 0, *arguments)

    with generator.batch(generator.models, make_sample(SENTENCES)) as batch:
        batch.iterate(3)
        ask("prefix", 0, 1, 2, tokens, byref(facts))
        while batch.live:
            batch.iterate(9)
        ask("ended", 0, 0, tokens, scores, byref(c_int64()))
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
