"""A batch of beam searches: hypotheses, counts, how far it looks ahead, what stops it."""

import gc
from ctypes import byref, c_float, c_int64

import pytest
import torch
from toy_strategies import check_beams, flags, look_ahead, stock_beams
from toy_translation import EOS, PAD, make_sample, make_task, sentences, toy_model

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.beam.lookahead import Reach, reach_of_budget, reach_with_torch
from fairseq_specdec.decoding.beam.native import NativeBeams, PrefixFacts
from fairseq_specdec.decoding.beam.replay import BeamRules
from fairseq_specdec.decoding.beam.torch_beams import TorchBeams
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.drafting import Drafter
from fairseq_specdec.drafting.input_copy import InputCopyDrafter
from fairseq_specdec.engine.native.library import Library, load

SENTENCES = sentences(5, seed=7)
BACKENDS = ["torch"] + ["native"] * (load() is not None)
UNK = 3
# Of one, three and no tokens; the last two with any token before or between.
PREFIX = torch.tensor([[5, 1, 1], [6, 7, 8], [1, 1, 1], [1, 9, 1], [4, 1, 5]])


def make(args=None, models=None, drafter=None, **settings):
    words = make_task().tgt_dict
    given = decoding_settings(**dict({"strategy": "greedy", "backend": "torch"}, **settings))
    overrides = Overrides(drafter, always_draft=drafter is not None)
    models = models or [toy_model()]
    return build_generator(models, words, words, args or flags(3), given, overrides=overrides)


def decode(generator, prefix=None, chosen=SENTENCES, **more):
    sample = make_sample(chosen)
    return generator.generate(generator.models, sample, prefix_tokens=prefix, **more)


def counts(stats):
    """The counters, without times."""
    return {name: value for name, value in vars(stats).items() if isinstance(value, int)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_counts_are_of_what_was_done(backend, monkeypatch):
    look_ahead(monkeypatch, Reach(3, 4))
    generator = make(strategy="iad", backend=backend)
    outputs = decode(generator)
    stats, alone = generator.stats, make(strategy="iad", backend=backend)
    assert stats.sentences == len(SENTENCES)
    assert stats.iterations == sum(h[0]["steps"] for h in outputs)
    assert stats.scored > stats.drafted > stats.accepted > 0
    steps = [max(len(h["tokens"]) for h in hypotheses) for hypotheses in outputs]
    assert stats.emitted >= sum(steps)
    # Each sentence by itself does the same.
    for sentence in SENTENCES:
        decode(alone, chosen=[sentence])
    for name in ("iterations", "emitted", "scored", "drafted", "accepted", "sentences"):
        assert getattr(alone.stats, name) == getattr(stats, name), name
    assert all(one["steps"] == row[0]["steps"] for row in outputs for one in row)
    assert stats.stopwatch.seconds["verifier"] > 0 and stats.total_seconds > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_trace_is_of_the_best_hypothesis_alone(backend):
    args = flags(3, retain_iter_history=True)
    generator = make(args, backend=backend)
    outputs, steps = decode(generator), []
    for hypotheses in outputs:
        best, *others = hypotheses
        # Callers may write to them.
        assert not any(one["tokens"].is_inference() for one in hypotheses)
        assert not any(one["positional_scores"].is_inference() for one in hypotheses)
        parts = best["iterations"]
        assert len(parts) == best["steps"] and not any(one["iterations"] for one in others)
        assert [token for part in parts for token in part.emitted] == best["tokens"].tolist()
        assert [part.position for part in parts] == [
            sum(len(part.emitted) for part in parts[:number]) for number in range(len(parts))
        ]
        for part in parts:
            assert (part.draft, part.accepted, part.steps, part.choices) == ([], 0, 0, [])
            assert 1 <= part.rows <= len(SENTENCES)
            assert 0 < part.ms == part.verifier_ms < 1000 * generator.stats.total_seconds
            assert part.drafter_ms == 0
            assert [one.waits for one in part.beam.hypotheses] == [True] * part.live
        assert parts[-1].live == 0 and parts[0].live == 3 and parts[0].rows == len(SENTENCES)
        steps.append(sum(part.beam.steps for part in parts))
    assert sum(steps) == generator.stats.emitted
    assert all(not one["iterations"] for row in decode(make(backend=backend)) for one in row)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_prefix_is_scored_in_the_first_pass(backend, monkeypatch):
    """Its tokens are no drafts, and they lead all hypotheses."""
    look_ahead(monkeypatch, Reach(3, 4))
    generator, chosen = make(strategy="iad", backend=backend), SENTENCES[:3]
    with generator.batch(generator.models, make_sample(chosen), PREFIX[:3]) as batch:
        batch.iterate()
        steps = [1 + int((row != PAD).sum()) for row in PREFIX[:3]]
        assert [len(one.tokens) for row in range(3) for one in batch.beams.live(row)] == [
            step for step in steps for _ in range(3)
        ]
        assert batch.stats.emitted == sum(steps) and batch.stats.drafted > 0 == batch.stats.accepted
        forced = batch.stats.scored - batch.stats.drafted
        assert forced == sum(steps)
        while batch.live:
            batch.iterate(9)
    expected = stock_beams([toy_model()], make_sample(chosen), flags(3), PREFIX[:3])
    check_beams(batch.finished, expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "prefix, scored", [([5, 6, 7], 4), ([5, EOS, 7], 2)], ids=["whole", "ended"]
)
def test_nothing_is_drafted_within_a_prefix(backend, prefix, scored, monkeypatch):
    """The first pass scores the start and the prefix's tokens before </s>, and nothing else."""
    look_ahead(monkeypatch, Reach(3, 4))
    generator, chosen = make(strategy="iad", backend=backend), SENTENCES[:2]
    with generator.batch(
        generator.models, make_sample(chosen), torch.tensor([prefix] * 2)
    ) as batch:
        batch.iterate()
        assert (batch.stats.scored, batch.stats.drafted) == (2 * scored, 0)


@pytest.mark.parametrize("strategy", ["greedy", "iad"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_passes_go_one_by_one_or_in_one_call(backend, strategy, monkeypatch):
    look_ahead(monkeypatch, Reach(3, 4))
    generator, at_once = (make(backend=backend, strategy=strategy) for _ in range(2))
    expected = decode(at_once)
    with generator.batch(generator.models, make_sample(SENTENCES)) as batch:
        batch.iterate()
        assert batch.stats.iterations == len(SENTENCES) and batch.live
        batch.iterate(2)
        assert batch.stats.iterations == 3 * len(SENTENCES)
        while batch.live:
            batch.iterate(100)
        check_beams(batch.finished, expected)
    assert counts(generator.stats) == counts(batch.stats) == counts(at_once.stats)
    traced = make(flags(3, retain_iter_history=True), backend=backend)
    with traced.batch(traced.models, make_sample(SENTENCES)) as batch:
        batch.iterate(100)  # a trace tells of each pass
        assert batch.stats.iterations == len(SENTENCES)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sentence_without_a_possible_token_is_named(backend):
    """The second one may end nowhere; the first one has left by then."""
    prefix = torch.tensor([[EOS, PAD, PAD], [5, 6, UNK]])
    args = flags(3, unkpen=float("inf"))
    with pytest.raises(ValueError, match="no possible token at position 2 of sentence 1 in"):
        decode(make(args, backend=backend), prefix, SENTENCES[:2])


@pytest.mark.parametrize("backend", BACKENDS)
def test_output_may_begin_after_another_symbol(backend):
    fairseqs = make_task().build_generator([toy_model()], flags(3))
    expected = fairseqs.generate([toy_model()], make_sample(SENTENCES), bos_token=9)
    outputs = decode(make(backend=backend), bos_token=9)
    check_beams(outputs, expected)
    first = [row[0]["tokens"].tolist() for row in outputs]
    assert first != [row[0]["tokens"].tolist() for row in decode(make(backend=backend))]


@pytest.mark.parametrize("unkpen, rewarded", [(-12.0, 12.0), (2.0, 0.0), (0.0, 0.0)])
def test_the_search_is_given_how_far_scores_may_rise(unkpen, rewarded):
    """A rewarded unknown word adds to its hypothesis."""
    generator = make(flags(4, unkpen=unkpen, max_len_b=17))
    with generator.batch(generator.models, make_sample(SENTENCES)) as batch:
        assert batch.beams.rules == BeamRules(4, EOS, 17, rewarded)


def reaches(rows, **settings):
    """How far a batch of so many sentences looks ahead on torch."""
    generator = make(flags(4), **settings)
    with generator.batch(generator.models, make_sample([SENTENCES[0]] * rows)) as batch:
        assert isinstance(batch.beams, TorchBeams)
        return [one.reach for one in batch.beams.lookaheads]


def test_how_far_it_looks_ahead():
    assert reaches(2) == []
    assert reaches(2, strategy="iad") == [reach_with_torch(2, False)] * 2
    assert reaches(21, strategy="iad") == []
    assert reaches(2, strategy="iad", draft_budget=24) == [reach_of_budget(24, 2, 4)] * 2
    assert reaches(21, strategy="iad", draft_budget=0) == [reach_of_budget(0, 21, 4)] * 21


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_drafter_for_one_hypothesis_is_left_out_and_the_log_says_so(backend, caplog):
    generator = make(flags(4), drafter=Drafter(), backend=backend)  # which opens no batch
    with caplog.at_level("INFO"):
        check_beams(decode(generator), decode(make(flags(4), backend=backend)))
    assert "--beam 4: beam search without drafts: --strategy greedy drafts for one" in caplog.text


@pytest.mark.skipif(load() is None, reason="no native library here")
def test_natively_weights_that_the_cache_holds_need_no_drafts():
    generator = make(strategy="iad", backend="native")
    decode(generator)
    assert generator.stats.drafted == 0


@pytest.mark.skipif(load() is None, reason="no native library here")
@pytest.mark.parametrize("prefix", [None, PREFIX], ids=["free", "forced"])
@pytest.mark.parametrize("limit", [200, 4])
def test_a_trace_has_the_same_drafts_on_both_backends(limit, prefix, monkeypatch):
    """Each prefix that a pass scored, whether it was, and whether it is kept for the next pass."""
    look_ahead(monkeypatch, Reach(3, 4))
    traces = []
    for backend in ("torch", "native"):
        args = flags(3, retain_iter_history=True, max_len_b=limit)
        outputs = decode(make(args, backend=backend, strategy="iad"), prefix)
        traces.append([[part.beam for part in best["iterations"]] for best, *_ in outputs])
    drafted = [one for row in traces[1] for beam in row for one in beam.draft]
    assert traces[0] == traces[1]
    assert len({one.kept for one in drafted}) > 1


@pytest.mark.skipif(load() is None, reason="no native library here")
def test_a_search_that_is_over_is_freed(monkeypatch):
    freed, free = [], Library.free

    def noted(self, name, pointer):
        freed.append((name, pointer.value))
        free(self, name, pointer)

    monkeypatch.setattr(Library, "free", noted)
    generator = make(backend="native")
    with generator.batch(generator.models, make_sample(SENTENCES)) as batch:
        assert isinstance(batch.beams, NativeBeams)
        assert "specdec_beams_free" not in dict(freed)
    del batch
    gc.collect()
    assert [at != 0 for name, at in freed if name == "specdec_beams_free"] == [True]


@pytest.mark.skipif(load() is None, reason="no native library here")
def test_no_more_tokens_are_written_than_there_is_room_for():
    generator = make(backend="native")
    tokens, scores, facts = (c_int64 * 9)(*[-1] * 9), (c_float * 9)(*[-1] * 9), PrefixFacts()

    def ask(what, *arguments):
        with pytest.raises(ValueError, match="more tokens than there is room for"):
            beams._library.call(f"specdec_beams_{what}", beams._pointer, 0, *arguments)

    with generator.batch(generator.models, make_sample(SENTENCES)) as batch:
        beams = batch.beams
        batch.iterate(3)
        assert [len(one.tokens) for one in beams.live(0)] == [3] * 3
        ask("prefix", 0, 1, 2, tokens, byref(facts))
        while batch.live:
            batch.iterate(9)
        assert all(one.tokens for one in beams.ended(0))
        ask("ended", 0, 0, tokens, scores, byref(c_int64()))
        ask("agreed", -1, tokens, byref(c_int64()))
    assert list(tokens) == list(scores) == [-1] * 9


def test_each_sentence_copies_its_own_source(monkeypatch):
    look_ahead(monkeypatch, Reach(3, 4))
    generator = make(flags(4), strategy="iad")
    assert isinstance(generator.drafter, InputCopyDrafter)
    with generator.batch(generator.models, make_sample(SENTENCES)) as batch:
        sources = [list(one.source) for one in batch.beams.lookaheads]
    assert sources == [[4 + word for word in sentence] for sentence in SENTENCES]


@pytest.mark.skipif(load() is None, reason="no native library here")
def test_what_the_library_does_not_search_is_replayed():
    def kind(args, models=None, prefix=None):
        generator = make(args, models, backend="native")
        sample = make_sample(SENTENCES)
        with generator.batch(generator.models, sample, prefix) as batch:
            return type(batch.beams)

    assert kind(flags(3)) is NativeBeams
    prefix = torch.tensor([[5]] * len(SENTENCES))
    assert kind(flags(3), prefix=prefix) is NativeBeams
    for size in (1, 2):
        assert kind(flags(3, no_repeat_ngram_size=size), prefix=prefix) is TorchBeams
    assert kind(flags(3), [toy_model(), toy_model("pre_norm")]) is TorchBeams
