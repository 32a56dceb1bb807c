"""Passes and drafts of fixed shapes, as CUDA graphs record them, run as plain functions: what they
say, and that every replay is what was recorded."""

import dataclasses
import functools
import logging

import pytest
import torch
from plain_graphs import PlainRecorder, plain_graphs
from toy_strategies import RELAXED, TOYS, Toys, decode, flags, make_generator, tokens
from toy_translation import assert_diverse, make_sample, sentences, toy_drafter, toy_model

from fairseq_specdec.decoding import cuda_graphs
from fairseq_specdec.decoding import generator as generator_module
from fairseq_specdec.decoding.draft_budget import DraftBudget, Plan
from fairseq_specdec.engine import graphs as engine_graphs
from fairseq_specdec.engine.eager import static_encoder
from fairseq_specdec.engine.graphs import Graphs

pytestmark = pytest.mark.skipif(
    not hasattr(torch.Tensor, "untyped_storage"), reason="needs the modes of torch 2"
)

BATCHES = {1: make_sample(sentences(1, seed=6)), 8: make_sample(sentences(8, seed=5))}


@pytest.fixture
def record(monkeypatch):
    """Puts plain recordings instead of CUDA graphs; the ``Graphs`` that were made."""

    def put(bucket=64, **more):
        chosen = plain_graphs(**more)
        monkeypatch.setattr(generator_module, "graphs_for", chosen)
        monkeypatch.setattr(engine_graphs, "BUCKET", bucket)
        return chosen.made

    return put


def torch_generator(case, **more):
    return make_generator(case, backend="torch", **more)


def caches(generator):
    """Of the verifiers, and of a drafter that is a model."""
    parts = generator._parts
    decoders = [weights.decoder for weights in parts.verifier.weights]
    weights = getattr(parts.drafter, "weights", parts.drafter)  # of a small Transformer
    decoders.append(getattr(weights, "decoder", getattr(weights, "layers", None)))
    return [cache for each in decoders if each is not None for cache in each.spare]


def recorded(generator):
    """Kinds and shapes of what was recorded."""
    return [key for cache in caches(generator) for key in cache.calls._calls]


def encoder_shapes(generator):
    """(rows, source positions) of the recorded passes of the verifiers' encoders."""
    return [
        size
        for weights in generator._parts.verifier.weights
        for calls in weights.encode._calls.values()
        for size, _ in calls._calls
    ]


def hypotheses(generator, sample):
    """All of every sentence."""
    return [one for ranked in generator.generate(generator.models, sample) for one in ranked]


def assert_same(outputs, want):
    assert tokens(outputs) == tokens(want)
    for ours, theirs in zip(outputs, want):
        torch.testing.assert_close(
            ours["positional_scores"], theirs["positional_scores"], rtol=1e-4, atol=1e-4
        )


def compare(record, case, samples, recording=None, **given):
    """Decode with recordings and without: the same outputs and counts. ``recording``: arguments of
    ``record``. ``given``: those of ``make_generator``. Returns the generator that records."""
    other = torch_generator(case, **given)
    want = [hypotheses(other, sample) for sample in samples]
    made = record(**(recording or {}))
    generator = torch_generator(case, **given)
    for sample, expected in zip(samples, want):
        assert_same(hypotheses(generator, sample), expected)
    for counter in ("iterations", "drafted", "accepted", "undrafted"):
        assert getattr(generator.stats, counter) == getattr(other.stats, counter), counter
    assert recorded(generator) and not made[0].broken
    return generator


def batches(*counts):
    """Of so many sentences each."""
    return [make_sample(sentences(count, seed=count)) for count in counts]


def kinds(generator):
    return {key[0] for key in recorded(generator)}


# ---- what they say -----------------------------------------------------------------------------


@pytest.mark.parametrize("rows, bucket", [(1, 64), (8, 8)])
@pytest.mark.parametrize("case", ["gad-attached", "sps", "bild-early-exit"])
def test_recorded_iterations_equal_others(case, rows, bucket, record):
    """Under a relaxed rule the drafts show too; every drafter is in test_parity.py."""
    twice = [BATCHES[rows]] * 2  # the second on the buffers of the first
    compare(record, case, twice, {"bucket": bucket}, lossless=False)


@pytest.mark.parametrize("case, block_size", [("gad", 1), ("gad-attached", 2), ("gad", 3)])
def test_smaller_blocks(case, block_size, record):
    generator = compare(record, case, [BATCHES[8]], {"bucket": 16}, block_size=block_size)
    assert kinds(generator) == {"block", "draft"}
    widths = {key[2] for key in recorded(generator) if key[0] == "block"}
    assert widths <= {1, block_size + 1}


@pytest.mark.parametrize("case", ["iad", "gad-attached", "sps", "blockwise"])
def test_batches_of_other_shapes_in_turn(case, record):
    """Buffers grow and are used again; rows of the batch before are behind the live ones."""
    generator = compare(record, case, batches(3, 8, 1, 5, 3, 8), {"bucket": 8})
    assert_diverse([h["tokens"] for h in hypotheses(generator, batches(8)[0])])
    assert len(caches(generator)) == len(generator._parts.verifier.weights) + (
        case in ("gad-attached", "sps")
    )


@pytest.mark.parametrize("after", [0, 3])
def test_masks_copy_from_the_source_of_their_own_batch(after, record, monkeypatch):
    copying = functools.partial(toy_drafter, updates=60, source_copy=True)
    monkeypatch.setitem(TOYS, "copying", Toys("gad++", None, RELAXED, drafter=copying))
    recording = {"bucket": 8, "after": after}
    generator = compare(record, "copying", batches(3, 8, 1, 5, 3, 8), recording, lossless=False)
    assert generator.stats.accepted > 0 and "draft" in kinds(generator)


@pytest.mark.parametrize("case", ["iad", "gad-attached"])
def test_batches_at_the_same_time_have_their_own_recordings(case, record):
    samples = [make_sample(sentences(count, seed=count)) for count in (4, 3)]
    want = [tokens(decode(torch_generator(case), sample)) for sample in samples]
    record(16)
    generator = torch_generator(case)
    models = generator.models
    with generator.batch(models, samples[0]) as one:
        with generator.batch(models, samples[1]) as other:
            while one.live or other.live:
                for batch in (one, other):
                    if batch.live:
                        batch.iterate()
            outputs = [[h[0] for h in batch.finished] for batch in (one, other)]
    assert [tokens(each) for each in outputs] == want


BEAMS = {
    "greedy": {},
    "no n-gram twice": {"no_repeat_ngram_size": 2},
    "iad": {},
    "gad-attached": {},
}


@pytest.mark.parametrize("name", BEAMS)
def test_beams(name, record):
    """Of other shapes in turn: rows and slots of the batch before are behind the live ones."""
    case = name if name in TOYS else "greedy"
    more = {"draft_budget": 20} if case == "gad-attached" else {}
    args = flags(beam=5, **BEAMS[name])
    generator = compare(record, case, batches(3, 8, 1, 5, 3, 8), {"bucket": 8}, args=args, **more)
    assert kinds(generator) == {"scattered"}


@torch.no_grad()
def test_encoders_of_longer_and_shorter_sources(record, monkeypatch):
    """What is in the buffers of longer sources and more rows does not show, and what a batch got
    stays when the next is encoded."""
    monkeypatch.setattr(static_encoder, "BUCKET", 4)
    samples = [make_sample(sentences(count, seed=count)) for count in (8, 3, 1, 5, 3, 8)]
    other, made = torch_generator("greedy"), record(8)
    generator = torch_generator("greedy")
    for each in (other, generator):
        decode(each, samples[0])
    plain, ours = (each._parts.verifier.weights[0].encode for each in (other, generator))
    inputs = [(sample["net_input"], padded) for sample in samples for padded in (None, True)]
    for encoded, want in zip(*([encode(*each) for each in inputs] for encode in (ours, plain))):
        torch.testing.assert_close(encoded["encoder_out"], want["encoder_out"])
        torch.testing.assert_close(encoded["encoder_padding_mask"], want["encoder_padding_mask"])
    assert len(set(encoder_shapes(generator))) > 2 and not made[0].broken
    assert {rows for rows, _ in encoder_shapes(generator)} == {8, 4, 1}


# {name: (strategy, flags, shapes of the verifiers)}
OTHERS = {
    "temperature": ("greedy", {"temperature": 1.7}, ()),
    "unknown words": ("gad-attached", {"unkpen": 3.0}, ()),
    "no n-gram twice": ("greedy", {"no_repeat_ngram_size": 2}, ()),
    "length limits": ("gad-attached", {"min_len": 9, "max_len_b": 11}, ()),
    "longer position tables": ("greedy", {"max_len_a": 1.0, "max_len_b": 2}, ()),
    "an ensemble": ("iad", {}, ["post_norm", "learned"]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_constraints_and_other_verifiers(name, record):
    """The limit on lengths grows with the source, and the table of positions with it."""
    case, changes, shapes = OTHERS[name]
    by_length = sorted(sentences(16, seed=3), key=len)
    samples = [make_sample(by_length[:8]), make_sample(by_length[8:])]
    models = [toy_model(shape) for shape in shapes] or None
    generator = compare(record, case, samples, {"bucket": 8}, args=flags(**changes), models=models)
    assert all(each.calls._calls for each in caches(generator))


@pytest.mark.parametrize(
    "case, budgets",
    [("gad++", (0, None)), ("gad-attached", (0, 0, None, 2)), ("gad-attached", (3, 0, 1))],
    ids=str,
)
def test_drafts_that_pause_and_shorten(case, budgets, record, monkeypatch):
    """Several iterations pass between two drafts, and the drafter then reads all of them."""

    def alternating(self, live):
        self.turn = getattr(self, "turn", -1) + 1
        return Plan(budgets[self.turn % len(budgets)])

    monkeypatch.setattr(DraftBudget, "plan", alternating)
    lossless = case == "gad-attached"  # of the other drafts shape the output
    generator = compare(record, case, [BATCHES[8]], {"bucket": 4}, lossless=lossless)
    assert generator.stats.undrafted > 0 and "draft" in kinds(generator)


# ---- when something is recorded ----------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_shape_is_recorded_when_it_has_come_up_often(after, record):
    record(after=after)
    generator = torch_generator("greedy")
    with generator.batch(generator.models, BATCHES[8]) as batch:
        for _ in range(after):
            batch.iterate()
        calls = batch.session.sessions[0].cache.calls
        assert not calls._calls
        batch.iterate()
        assert len(calls._calls) == 1


@pytest.mark.parametrize("case", ["gad", "gad-attached", "sps"])
def test_recordings_that_begin_midway(case, record):
    """What is not recorded yet runs over the same buffers, and loses nothing on its way there."""
    compare(record, case, [BATCHES[8]], {"bucket": 16, "after": 2})


@pytest.mark.parametrize("rows, wanted", [(3, {1, 2, 4}), (None, {1, 2, 4, 8})])
def test_no_more_rows_than_pay(rows, wanted, record):
    generator = compare(record, "gad-attached", batches(8, 3, 2, 1), {"rows": rows})
    assert {key[1] for key in recorded(generator)} == wanted


def test_so_many_shapes_and_no_more(record, monkeypatch):
    monkeypatch.setattr(engine_graphs, "MOST", 2)
    assert len(recorded(compare(record, "iad", [BATCHES[8]]))) == 2


class FailingRecorder(PlainRecorder):
    """Fails at the second recording, after its computation was begun."""

    made = 0

    def record(self, function):
        type(self).made += 1
        if self.made > 1:
            function()
            raise RuntimeError("CUDA error: not permitted\nof no interest")
        return super().record(function)


@pytest.mark.parametrize("case", ["greedy", "gad-attached", "sps"])
def test_a_recording_that_fails_is_logged_once_and_does_no_harm(case, record, caplog, monkeypatch):
    want = decode(torch_generator(case), BATCHES[8])
    made = record(8, recorder=FailingRecorder)
    monkeypatch.setattr(FailingRecorder, "made", 0)
    generator = torch_generator(case)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert_same(decode(generator, BATCHES[8]), want)
    assert made[0].broken and FailingRecorder.made == 2
    messages = [one.message for one in caplog.records if "--cuda-graphs" in one.message]
    assert messages == [
        "--cuda-graphs: recording failed, decoding goes on without graphs (CUDA error: not "
        "permitted)"
    ]


@pytest.mark.parametrize("width, columns", [(1, 1), (2, 8), (8, 8), (9, 11), (11, 11), (12, 16)])
def test_columns(width, columns):
    assert Graphs(10).columns(width) == columns
    assert Graphs(None).columns(width) == (16 if columns == 11 else columns)


def test_buckets():
    assert [engine_graphs.bucket(count) for count in (1, 64, 65)] == [64, 64, 128]
    assert [engine_graphs.row_bucket(rows) for rows in (1, 2, 3, 8, 9)] == [1, 2, 4, 8, 16]


# ---- whether -----------------------------------------------------------------------------------


class OnCard(torch.nn.Module):
    """A verifier that says it lies on a GPU."""

    def __init__(self):
        super().__init__()
        self.decoder = toy_model().decoder

    def parameters(self, recurse=True):
        for each in super().parameters(recurse):
            yield Elsewhere(each)


class Elsewhere:
    is_cuda, device = True, torch.device("cuda", 0)

    def __init__(self, parameter):
        self.dtype = parameter.dtype


@pytest.mark.parametrize("asked, rows", [("on", None), ("off", 0), ("auto", 32)])
def test_what_is_asked_decides_up_to_how_many_rows(asked, rows):
    given = dataclasses.replace(make_generator("greedy").options, cuda_graphs=asked)
    drafter = make_generator("gad").drafter
    recordings = cuda_graphs.graphs_for(given, [OnCard()], drafter)
    assert (recordings is None) == (asked == "off")
    if recordings is not None:
        assert (recordings.block_size, recordings.rows) == (drafter.block_size, rows)
    assert cuda_graphs.graphs_for(given, [toy_model()], drafter) is None


def test_on_is_refused_on_a_cpu():
    with pytest.raises(ValueError, match="^--cuda-graphs on: .*on cpu.*; use auto or off"):
        make_generator("greedy", cuda_graphs="on")
    for other in ("auto", "off"):
        generator = make_generator("greedy", cuda_graphs=other)
        assert generator.options.cuda_graphs == other
    with pytest.raises(ValueError, match="^--cuda-graphs maybe: choose one of auto, on, off"):
        make_generator("greedy", cuda_graphs="maybe")
