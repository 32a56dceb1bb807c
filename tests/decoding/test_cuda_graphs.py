"""Passes and drafts of fixed shapes, as CUDA graphs record them, run as plain functions: what they
say, and that every replay is what was recorded."""

import functools
import logging
from argparse import Namespace

import pytest
import torch
from plain_graphs import PlainRecorder, plain_graphs
from toy_strategies import RELAXED, TOYS, Toys, check, decode, flags, make_generator
from toy_translation import make_sample, sentences, toy_drafter, toy_model

from fairseq_specdec.decoding import generator as generator_module
from fairseq_specdec.decoding.pace import DraftBudget, Plan
from fairseq_specdec.engine import torch_graphs
from fairseq_specdec.engine.torch_graphs import Graphs, graphs_for

BATCH = make_sample(sentences(8, seed=5))


@pytest.fixture
def record(monkeypatch):
    """Puts plain recordings instead of CUDA graphs; the ``Graphs`` that were made."""

    def put(bucket=64, **more):
        chosen = plain_graphs(**more)
        monkeypatch.setattr(generator_module, "graphs_for", chosen)
        monkeypatch.setattr(torch_graphs, "BUCKET", bucket)
        return chosen.made

    return put


def torch_generator(case, **more):
    return make_generator(case, backend="torch", **more)


def decoders(generator):
    """Of the verifiers, and of a drafter that is a model."""
    parts = generator.parts()
    found = [weights.decoder for weights in parts.verifier.weights]
    weights = getattr(parts.drafter, "weights", parts.drafter)  # of a small Transformer
    drafter = getattr(weights, "decoder", getattr(weights, "layers", None))
    return found if drafter is None else [*found, drafter]


def caches(generator):
    return [cache for each in decoders(generator) for cache in each.spare]


def recorded(generator):
    """Kinds, rows and columns of what was recorded."""
    return [
        (key[0], rows, key[1])
        for cache in caches(generator)
        for rows, key in cache.recordings.passes
    ]


def hypotheses(generator, sample):
    """All of every sentence."""
    return [one for ranked in generator.generate(generator.models, sample) for one in ranked]


def compare(record, case, samples, recording, **given):
    """Decode with recordings and without: the same outputs and counts. ``recording``: arguments of
    ``record``. ``given``: those of ``make_generator``. Returns the generator that records."""
    other = torch_generator(case, **given)
    want = [hypotheses(other, sample) for sample in samples]
    made = record(**recording)
    generator = torch_generator(case, **given)
    for sample, expected in zip(samples, want):
        check(hypotheses(generator, sample), expected)
    for counter in ("iterations", "drafted", "accepted", "undrafted"):
        assert getattr(generator.stats, counter) == getattr(other.stats, counter), counter
    assert recorded(generator) and not made[0].broken
    return generator


def batches(*counts):
    """Of so many sentences each."""
    return [make_sample(sentences(count, seed=count)) for count in counts]


# ---- what they say -----------------------------------------------------------------------------

# Rows and slots of the batch before are behind the live ones.
TURNS = batches(3, 8, 1, 5)
BY_LENGTH = sorted(sentences(16, seed=3), key=len)
# The limit on lengths grows with the source, and the table of positions with it.
LONGER = [make_sample(BY_LENGTH[:8]), make_sample(BY_LENGTH[8:])]

# (strategy, batches, arguments of ``record``, of ``make_generator``, generation flags)
SAME = {
    # Under a relaxed rule the drafts show too; every drafter is in test_parity.py.
    "relaxed, one row": ("gad-attached", batches(1, 1), {}, {"lossless": False}, {}),
    "turns, gad": ("gad-attached", TURNS, {"bucket": 8}, {}, {}),
    # What is not recorded yet runs over the same buffers, and loses nothing on its way there.
    "midway, sps": ("sps", [BATCH], {"bucket": 16, "after": 2}, {}, {}),
    "limits": ("gad-attached", LONGER, {"bucket": 8}, {}, {"min_len": 9, "max_len_b": 11}),
    "positions": ("greedy", LONGER, {"bucket": 8}, {}, {"max_len_a": 1.0, "max_len_b": 2}),
    "ensemble": ("iad", LONGER, {"bucket": 8}, {"models": ["post_norm", "learned"]}, {}),
    "beams, gad": ("gad-attached", TURNS, {"bucket": 8}, {"draft_budget": 20}, {"beam": 5}),
}


@pytest.mark.parametrize("name", SAME)
def test_recorded_passes_equal_others(name, record):
    case, samples, recording, given, changes = SAME[name]
    if "models" in given:
        given = {"models": list(map(toy_model, given["models"]))}
    generator = compare(record, case, samples, recording, args=flags(**changes), **given)
    drafts = {"chain", "draft"} if case.startswith("gad") else {"chain"}
    assert {kind for kind, *_ in recorded(generator)} == (
        {"scattered"} if "beam" in changes else drafts
    )
    assert all(each.recordings.passes for each in caches(generator))
    assert len(caches(generator)) == len(decoders(generator)), "batches should share one"


def test_masks_copy_from_the_source_of_their_own_batch(record, monkeypatch):
    copying = functools.partial(toy_drafter, updates=60, source_copy=True)
    monkeypatch.setitem(TOYS, "copying", Toys("gad++", None, RELAXED, drafter=copying))
    recording = {"bucket": 8, "after": 3}
    generator = compare(record, "copying", TURNS, recording, lossless=False)
    assert generator.stats.accepted > 0 and "draft" in {kind for kind, *_ in recorded(generator)}


@torch.no_grad()
def test_encoders_of_longer_and_shorter_sources(record, monkeypatch):
    """What is in the buffers of longer sources and more rows does not show, and what a batch got
    stays when the next is encoded."""
    monkeypatch.setattr(torch_graphs, "ENCODED", 4)
    other, made = torch_generator("greedy"), record(8)
    generator = torch_generator("greedy")
    for each in (other, generator):
        decode(each, BATCH)
    plain, ours = (each.parts().verifier.weights[0].encode for each in (other, generator))
    inputs = [(sample["net_input"], padded) for sample in TURNS for padded in (None, True)]
    for encoded, want in zip(*([encode(*each) for each in inputs] for encode in (ours, plain))):
        torch.testing.assert_close(encoded["encoder_out"], want["encoder_out"])
        torch.testing.assert_close(encoded["encoder_padding_mask"], want["encoder_padding_mask"])
    passes = [(rows, key[0]) for one in ours.streams.values() for rows, key in one.passes]
    assert len(set(passes)) > 2 and not made[0].broken
    assert {rows for rows, _ in passes} == {8, 4, 1}


@pytest.mark.parametrize("budgets", [(0, 0, None, 2), (3, 0, 1)], ids=str)
def test_drafts_that_pause_and_shorten(budgets, record, monkeypatch):
    """Several iterations pass between two drafts, and the drafter then reads all of them."""

    def alternating(self, live):
        self.turn = getattr(self, "turn", -1) + 1
        return Plan(budgets[self.turn % len(budgets)])

    monkeypatch.setattr(DraftBudget, "plan", alternating)
    generator = compare(record, "gad-attached", [BATCH], {"bucket": 4})
    assert generator.stats.undrafted > 0 and "draft" in {kind for kind, *_ in recorded(generator)}


# ---- when something is recorded ----------------------------------------------------------------


def test_no_more_rows_than_pay_and_no_more_shapes_than_fit(record, monkeypatch):
    generator = compare(record, "gad-attached", batches(8, 3, 2, 1), {"rows": 3})
    assert {rows for _, rows, _ in recorded(generator)} == {1, 2, 4}
    monkeypatch.setattr(torch_graphs, "MOST", 2)
    assert len(recorded(compare(record, "iad", [BATCH], {}))) == 2


class FailingRecorder(PlainRecorder):
    """Fails at the second recording, after its computation was begun."""

    made = 0

    def record(self, function):
        type(self).made += 1
        if self.made > 1:
            function()
            raise RuntimeError("CUDA error: not permitted\nof no interest")
        return super().record(function)


@pytest.mark.parametrize("case", ["greedy", "gad-attached"])
def test_a_recording_that_fails_is_logged_once_and_does_no_harm(case, record, caplog, monkeypatch):
    want = decode(torch_generator(case), BATCH)
    made = record(8, recorder=FailingRecorder)
    monkeypatch.setattr(FailingRecorder, "made", 0)
    generator = torch_generator(case)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            check(decode(generator, BATCH), want)
    assert made[0].broken and FailingRecorder.made == 2
    messages = [one.message for one in caplog.records if "--cuda-graphs" in one.message]
    assert messages == [
        "--cuda-graphs: recording failed, decoding continues without graphs (CUDA error: not "
        "permitted)"
    ]


@pytest.mark.parametrize("width, columns", [(1, 1), (2, 8), (8, 8), (9, 11), (11, 11), (12, 16)])
def test_columns(width, columns):
    assert Graphs(10).columns(width) == columns
    assert Graphs(None).columns(width) == (16 if columns == 11 else columns)


@pytest.mark.parametrize("asked, rows", [("on", None), ("off", 0), ("auto", 32)])
def test_what_is_asked_decides_up_to_how_many_rows(asked, rows):
    on_card = Namespace(parameters=lambda: iter([Namespace(is_cuda=True)]))
    recordings = graphs_for(asked, [on_card], 5)
    assert (recordings is None) == (asked == "off")
    if recordings is not None:
        assert (recordings.block_size, recordings.rows) == (5, rows)
    assert graphs_for(asked, [toy_model()], 5) is None


def test_on_is_refused_on_a_cpu():
    with pytest.raises(ValueError, match="^--cuda-graphs on: .*on cpu.*; use auto or off"):
        make_generator("greedy", cuda_graphs="on")
    for other in ("auto", "off"):
        generator = make_generator("greedy", cuda_graphs=other)
        assert generator.options.cuda_graphs == other
    with pytest.raises(ValueError, match="^--cuda-graphs maybe: choose one of auto, on, off"):
        make_generator("greedy", cuda_graphs="maybe")
