"""Passes and drafts of fixed shapes, as CUDA graphs record them, run as plain functions: what they
say, and that every replay is what was recorded. Every drafter is in test_parity.py."""

import functools
import logging
from argparse import Namespace

import pytest
import torch
from plain_graphs import PlainRecorder, plain_graphs
from toy_strategies import RELAXED, TOYS, Toys, check, decode, flags, make_generator
from toy_translation import make_sample, sentences, toy_drafter, toy_model

from fairseq_specdec.decoding import generator as generator_module
from fairseq_specdec.decoding import greedy
from fairseq_specdec.decoding.pace import DraftBudget, Plan
from fairseq_specdec.engine import torch_graphs
from fairseq_specdec.engine.torch_graphs import graphs_for


class CountingRecorder(PlainRecorder):
    """Counts what all of its kind record."""

    made = 0

    def record(self, function):
        type(self).made += 1
        return super().record(function)


class FailingRecorder(CountingRecorder):
    """Fails at the second recording, after its computation was begun."""

    def record(self, function):
        if self.made > 0:
            type(self).made += 1
            function()
            raise RuntimeError("CUDA error: not permitted\nof no interest")
        return super().record(function)


@pytest.fixture
def record(monkeypatch):
    """Puts plain recordings instead of CUDA graphs; the ``Graphs`` that were made."""

    def put(bucket=64, recorder=CountingRecorder, **more):
        chosen = plain_graphs(recorder, **more)
        monkeypatch.setattr(recorder, "made", 0)
        monkeypatch.setattr(generator_module, "graphs_for", chosen)
        monkeypatch.setattr(torch_graphs, "BUCKET", bucket)
        return chosen.made

    return put


def compare(record, case, samples, recording, **given):
    """Decode with recordings and without: the same outputs and counts. ``recording``: arguments of
    ``record``. ``given``: those of ``make_generator``. Returns how many recordings were made."""

    def decoded():
        generator = make_generator(case, backend="torch", **given)
        ranked = [generator.generate(generator.models, sample) for sample in samples]
        stats = generator.stats
        counts = (stats.iterations, stats.drafted, stats.accepted, stats.undrafted)
        return [one for batch in ranked for sentence in batch for one in sentence], counts

    (want, wanted_counts), made = decoded(), record(**recording)
    outputs, counts = decoded()
    check(outputs, want)
    assert counts == wanted_counts
    assert CountingRecorder.made > 0 and not made[0].broken
    return CountingRecorder.made


def batches(*counts):
    """Of so many sentences each."""
    return [make_sample(sentences(count, seed=count)) for count in counts]


# Rows and slots of the batch before are behind the live ones.
TURNS = batches(3, 8, 1, 5)
BATCH = TURNS[1]
BY_LENGTH = sorted(sentences(16, seed=3), key=len)
# The limit on lengths grows with the source, and the table of positions with it.
LONGER = [make_sample(BY_LENGTH[:8]), make_sample(BY_LENGTH[8:])]

# (strategy, batches, arguments of ``record``, of ``make_generator``, generation flags)
SAME = {
    "relaxed, one row": ("gad-attached", batches(1, 1), {}, {"lossless": False}, {}),
    "turns": ("gad-attached", TURNS, {"bucket": 8}, {}, {}),
    # What is not recorded yet runs over the same buffers, and loses nothing on its way there.
    "midway": ("sps", [BATCH], {"bucket": 16, "after": 2}, {}, {}),
    "positions": ("greedy", LONGER, {"bucket": 8}, {}, {"max_len_a": 1.0, "max_len_b": 2}),
    "ensemble": ("iad", LONGER, {"bucket": 8}, {"models": ["post_norm", "learned"]}, {}),
    "beams": ("gad-attached", TURNS, {"bucket": 8}, {"draft_budget": 20}, {"beam": 5}),
}


@pytest.mark.parametrize("name", SAME)
def test_recorded_passes_equal_others(name, record):
    case, samples, recording, given, changes = SAME[name]
    if "models" in given:
        given = {"models": list(map(toy_model, given["models"]))}
    compare(record, case, samples, recording, args=flags(**changes), **given)


class SimpleRecorder:
    """Runs a pass again. (What torch compiles runs under no ``TorchDispatchMode``.)"""

    def __init__(self, device):
        self.device = device

    def record(self, function):
        outputs = tuple(map(torch.clone, function()))
        return lambda: [mine.copy_(new) for mine, new in zip(outputs, function())], outputs


@pytest.mark.slow
@pytest.mark.parametrize("case", ["greedy", "gad", "gad-attached", "sps"])
def test_each_pass_compiles_as_a_whole(case, monkeypatch):
    """``--cuda-graphs compiled``, traced by torch.compile but run by torch's own operators."""
    compiled, compile_one = [], torch.compile

    def decoded():
        generator = make_generator(case, backend="torch")
        outputs = decode(generator, BATCH)
        return [one["tokens"].tolist() for one in outputs], generator.stats.iterations

    def by_operators(function, fullgraph, **_):
        compiled.append(function)
        return compile_one(function, fullgraph=fullgraph, dynamic=False, backend="eager")

    wanted, graphs = decoded(), torch_graphs.Graphs(None, None, SimpleRecorder, 0, compiles=True)
    monkeypatch.setattr(torch, "compile", by_operators)
    monkeypatch.setattr(generator_module, "graphs_for", lambda *_: graphs)
    assert decoded() == wanted and len(compiled) > 1


@pytest.mark.parametrize("name", ["turns", "positions"])
def test_recorded_steps_equal_single_ones(name, record, monkeypatch):
    """Several steps of greedy decoding in one recording, if constraints are the same for all."""
    _, samples, recording, _, changes = SAME[name]
    generator = make_generator("greedy", flags(**changes), backend="torch")
    want = [one for sample in samples for one in decode(generator, sample)]
    record(**recording)
    monkeypatch.setattr(greedy.Batch, "runs_ahead", True)
    replayed = []
    replay = greedy.replay
    monkeypatch.setattr(greedy, "replay", lambda *a: replayed.append(replay(*a)) or replayed[-1])
    generator = make_generator("greedy", flags(**changes), backend="torch")
    check([one for sample in samples for one in decode(generator, sample)], want)
    assert any(replayed)


def test_masks_copy_from_the_source_of_their_own_batch(record, monkeypatch):
    copying = functools.partial(toy_drafter, updates=60, source_copy=True)
    monkeypatch.setitem(TOYS, "copying", Toys("gad++", None, RELAXED, drafter=copying))
    compare(record, "copying", TURNS, {"bucket": 8, "after": 3}, lossless=False)


@torch.no_grad()
def test_encoders_of_longer_and_shorter_sources(record, monkeypatch):
    """What is in the buffers of longer sources and more rows does not show, and what a batch got
    stays when the next is encoded."""
    monkeypatch.setattr(torch_graphs, "ENCODED", 4)
    other = make_generator("greedy", backend="torch")
    made = record(8)
    generator = make_generator("greedy", backend="torch")
    for each in (other, generator):
        decode(each, BATCH)
    plain, ours = (each.parts().verifier.weights[0].encode for each in (other, generator))
    inputs = [(sample["net_input"], padded) for sample in TURNS for padded in (None, True)]
    for encoded, want in zip(*([encode(*each) for each in inputs] for encode in (ours, plain))):
        torch.testing.assert_close(encoded["encoder_out"], want["encoder_out"])
        torch.testing.assert_close(encoded["encoder_padding_mask"], want["encoder_padding_mask"])
    assert CountingRecorder.made > 0 and not made[0].broken


def test_drafts_that_pause_and_shorten(record, monkeypatch):
    """Several iterations pass between two drafts, and the drafter then reads all of them."""

    def alternating(self, live):
        self.turn = getattr(self, "turn", -1) + 1
        return Plan((0, 0, None, 2, 1)[self.turn % 5])

    monkeypatch.setattr(DraftBudget, "plan", alternating)
    compare(record, "gad-attached", [BATCH], {"bucket": 4})


def test_no_more_rows_than_pay_and_no_more_shapes_than_fit(record, monkeypatch):
    given = record, "iad", batches(8, 3, 2, 1)
    all_rows, few = (compare(*given, {"rows": rows}) for rows in (None, 3))
    monkeypatch.setattr(torch_graphs, "MOST", 2)
    assert all_rows > few > compare(*given, {"rows": 3})


@pytest.mark.parametrize("case", ["greedy", "gad-attached"])
def test_a_recording_that_fails_is_logged_once_and_does_no_harm(case, record, caplog):
    want = decode(make_generator(case, backend="torch"), BATCH)
    made = record(8, recorder=FailingRecorder)
    generator = make_generator(case, backend="torch")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            check(decode(generator, BATCH), want)
    assert made[0].broken and FailingRecorder.made == 2
    messages = [one.message for one in caplog.records if "--cuda-graphs" in one.message]
    assert messages == [
        "--cuda-graphs: recording failed, decoding continues without graphs (CUDA error: not "
        "permitted)"
    ]


@pytest.mark.parametrize("asked, rows", [("on", None), ("off", 0), ("auto", 32)])
def test_what_is_asked_decides_up_to_how_many_rows(asked, rows):
    on_card = Namespace(parameters=lambda: iter([Namespace(is_cuda=True)]))
    recordings = graphs_for(asked, [on_card], 5)
    assert (recordings is None) == (asked == "off")
    if recordings is not None:
        assert (recordings.block_size, recordings.rows) == (5, rows)
    assert graphs_for(asked, [toy_model()], 5) is None
