"""Batches that are decoded at once, by threads or in turn, share a generator and nothing else."""

import contextlib
import copy
import sys
import threading

import pytest
import torch
from pairwise import half
from toy_strategies import cases, decode, flags, make_generator, stock, tokens, toys
from toy_translation import assert_diverse, make_sample, sentences

from fairseq_specdec.drafting import blockwise_heads
from fairseq_specdec.engine.eager import linear

COUNTERS = ("sentences", "iterations", "emitted", "drafted", "accepted", "rollbacks")
SECTIONS = ("encoder", "drafter_encoder", "drafter", "verifier")
PATIENCE = 120  # seconds; only a deadlock takes so long


def samples():
    """Batches of several sizes and lengths."""
    everything = sentences(30, seed=9)
    sizes = [(0, 1), (1, 4), (4, 11), (11, 12), (12, 24), (24, 30)]
    return [make_sample(everything[a:b], left=a % 2 == 0) for a, b in sizes]


def facts(hypotheses):
    """What must be the same however the batches are decoded."""
    return [(h["tokens"].tolist(), h["steps"]) for h in hypotheses]


def scores(hypotheses):
    return torch.cat([h["positional_scores"] for h in hypotheses])


def counters(stats):
    return {name: getattr(stats, name) for name in COUNTERS}


@pytest.fixture
def impatient():
    """Threads take turns as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def all_at_once(work, count):
    """Run ``work(number)`` in threads that begin together.

    Raises:
        BaseException: what the first of them raised, or an AssertionError where one hangs.
    """
    begin, errors = threading.Barrier(count), []

    def run(number):
        try:
            begin.wait(PATIENCE)
            work(number)
        except BaseException as error:  # a thread's errors reach nobody else
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"


@pytest.mark.parametrize("case, count", half(cases(), [2, 4]))
def test_threads_give_what_one_gives(case, count, impatient):
    batches = samples()
    alone = make_generator(case, lossless=False)
    expected = [decode(alone, sample) for sample in batches]
    assert_diverse(tokens(sum(expected, [])))
    shared = make_generator(case, lossless=False)

    def work(number):
        first = number % len(batches)
        for i in [*range(first, len(batches)), *range(first)]:
            outputs = decode(shared, batches[i])
            assert facts(outputs) == facts(expected[i])
            torch.testing.assert_close(scores(outputs), scores(expected[i]), atol=1e-5, rtol=0)

    all_at_once(work, count)
    once = counters(alone.stats)
    assert counters(shared.stats) == {name: count * value for name, value in once.items()}
    assert shared.stats.total_seconds > 0
    times = shared.stats.times()
    assert sum(times[name] for name in SECTIONS) <= shared.stats.total_seconds + 1e-6


@pytest.mark.parametrize("free_unpacked", [False, True], ids=["kept", "released"])
@pytest.mark.parametrize("case", ["greedy", "gad", "gad-attached", "sps", "bild-early-exit"])
def test_threads_share_packed_weights(case, free_unpacked, impatient, monkeypatch):
    monkeypatch.setattr(linear, "PACKED_FROM", 0)
    batches = samples()
    expected = [tokens(stock([toys(case).verifier()], sample, flags())) for sample in batches]
    models = [copy.deepcopy(toys(case).verifier())]
    shared = make_generator(case, models=models, free_unpacked=free_unpacked)

    def work(number):
        for i, sample in enumerate(batches):
            assert tokens(decode(shared, sample)) == expected[i]

    all_at_once(work, 2)


def in_turn(generator, batches):
    """Hypotheses of batches that are all begun before the first is over, iterated in turn."""
    with contextlib.ExitStack() as stack:
        begun = [
            stack.enter_context(generator.batch(generator.models, sample)) for sample in batches
        ]
        while any(batch.live for batch in begun):
            for batch in begun:
                if batch.live:
                    batch.iterate()
        return [[best for (best,) in batch.finished] for batch in begun]


@pytest.mark.parametrize("case", cases())
def test_batches_in_turn_give_what_they_give_one_after_another(case):
    batches = samples()
    alone = make_generator(case, lossless=False)
    expected = [decode(alone, sample) for sample in batches]
    shared = make_generator(case, lossless=False)
    for _ in range(2):  # the second time with the buffers of the first
        for outputs, wanted in zip(in_turn(shared, batches), expected):
            assert facts(outputs) == facts(wanted)
            torch.testing.assert_close(scores(outputs), scores(wanted), atol=1e-5, rtol=0)
    assert counters(shared.stats) == {n: 2 * value for n, value in counters(alone.stats).items()}


def test_a_batch_that_is_given_up_counts_what_it_did_and_disturbs_none():
    batches, generator = samples(), make_generator("gad")
    expected = [decode(make_generator("gad"), sample) for sample in batches]
    with generator.batch(generator.models, batches[4]) as given_up:
        given_up.iterate()
        assert facts(decode(generator, batches[5])) == facts(expected[5])
        before = counters(generator.stats)
    after = counters(generator.stats)
    assert after["iterations"] - before["iterations"] == len(expected[4])
    assert after["sentences"] - before["sentences"] == sum(h["steps"] == 1 for h in expected[4])
    assert after["emitted"] - before["emitted"] >= len(expected[4])
    for sample, wanted in zip(batches, expected):
        assert facts(decode(generator, sample)) == facts(wanted)


class Interrupted(dict):
    """A batch of fairseq; other work is done when ``net_input`` is first asked for.

    A generator asks for it after it has chosen the weights, and before it opens sessions.
    """

    def __init__(self, sample, work):
        super().__init__(sample)
        self.work = work

    def __getitem__(self, name):
        work, self.work = self.work, None
        if name == "net_input" and work is not None:
            work()
        return super().__getitem__(name)


def change_weights(generator):
    """Put other weights into the decoders of verifier and drafter."""
    models = [generator.models[0], getattr(generator.drafter, "model", None)]
    layers = {layer for model in models if model is not None for layer in model.decoder.layers}
    for layer in layers:
        layer.fc1.weight = torch.nn.Parameter(1.5 * layer.fc1.weight.detach())


def to_change(case, sample):
    """(a generator of its own models, facts of the sample before and after ``change_weights``)."""

    def fresh():
        models = [copy.deepcopy(toys(case).verifier())]
        return make_generator(case, models=models, lossless=False)

    changed = fresh()
    change_weights(changed)
    old, new = (facts(decode(generator, sample)) for generator in (fresh(), changed))
    assert new != old
    return fresh(), old, new


@pytest.mark.parametrize("case", cases())
def test_refresh_does_not_disturb_a_batch_of_another_thread(case):
    """The other thread stops in the middle of its batch until other weights were read."""
    sample = samples()[4]
    generator, old, new = to_change(case, sample)
    halfway, go_on, facts_by_time = threading.Event(), threading.Event(), {}

    def work(number):
        if number == 0:
            with generator.batch(generator.models, sample) as batch:
                batch.iterate()
                assert batch.live
                halfway.set()
                assert go_on.wait(PATIENCE)
                while batch.live:
                    batch.iterate()
                facts_by_time["begun before"] = facts([best for (best,) in batch.finished])
            return
        assert halfway.wait(PATIENCE)
        change_weights(generator)
        generator.refresh()
        facts_by_time["begun after"] = facts(decode(generator, sample))
        go_on.set()

    all_at_once(work, 2)
    assert facts_by_time == {"begun before": old, "begun after": new}
    assert facts(decode(generator, sample)) == new


@pytest.mark.parametrize("case", cases())
def test_a_batch_decodes_with_the_weights_of_one_reading(case):
    """Other weights are read, and used, while a batch is about to open."""
    sample = samples()[4]
    generator, old, new = to_change(case, sample)
    outputs = []

    def read_again():
        change_weights(generator)
        generator.refresh()
        outputs.append(facts(decode(generator, sample)))

    decode(generator, sample)
    assert facts(decode(generator, Interrupted(sample, read_again))) == old
    assert outputs == [new]


def test_weights_are_read_once_for_threads_that_begin_together(impatient, monkeypatch):
    generator, reads = make_generator("gad"), []
    prepare = generator.drafter.prepare

    def counted(*arguments):
        reads.append(1)
        return prepare(*arguments)

    monkeypatch.setattr(generator.drafter, "prepare", counted)
    all_at_once(lambda number: decode(generator, samples()[number]), 4)
    assert len(reads) == 1


def test_heads_that_are_being_read_again_draft_for_other_threads(monkeypatch):
    """A batch that begins while another thread reads the weights drafts as any other."""
    sample = samples()[4]
    wanted = facts(decode(make_generator("blockwise", lossless=False), sample))
    generator = make_generator("blockwise", lossless=False)
    decode(generator, sample)
    heads, outputs = blockwise_heads.PackedHeads, []

    def begin_in_between(*args):
        monkeypatch.setattr(blockwise_heads, "PackedHeads", heads)
        outputs.append(facts(decode(generator, sample)))
        return heads(*args)

    monkeypatch.setattr(blockwise_heads, "PackedHeads", begin_in_between)
    generator.drafter.prepare(generator.models[0])
    assert outputs == [wanted]
