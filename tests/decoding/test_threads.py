"""Batches that are decoded at once, by threads or in turn, share a generator and nothing else."""

import contextlib
import copy
import sys
import threading

import pytest
import torch
from toy_strategies import TOYS, decode, make_generator, tokens
from toy_translation import assert_diverse, make_sample, sentences

COUNTERS = ("sentences", "iterations", "emitted", "drafted", "accepted", "rollbacks")
SECTIONS = ("encoder", "drafter_encoder", "drafter", "verifier")
PATIENCE = 120  # seconds; only a deadlock takes so long
# Of several sizes and lengths.
PLACES = [(0, 1), (1, 4), (4, 11), (11, 12), (12, 24), (24, 30)]
BATCHES = [make_sample(sentences(30, seed=9)[a:b], left=a % 2 == 0) for a, b in PLACES]
CASES = ["greedy", "iad", "gad-attached", "gad++", "sps", "blockwise", "bild", "nar"]


def facts(hypotheses):
    """What must be the same however the batches are decoded."""
    return [(h["tokens"].tolist(), h["steps"]) for h in hypotheses]


def check(outputs, expected):
    assert facts(outputs) == facts(expected)
    scores = [torch.cat([h["positional_scores"] for h in each]) for each in (outputs, expected)]
    torch.testing.assert_close(*scores, atol=1e-5, rtol=0)


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


@pytest.mark.parametrize("case", CASES)
def test_threads_and_turns_give_what_one_batch_after_another_gives(case, impatient):
    alone = make_generator(case, lossless=False)
    expected = [decode(alone, sample) for sample in BATCHES]
    assert_diverse(tokens(sum(expected, [])))
    shared = make_generator(case, lossless=False)

    def work(number):
        for i in [*range(number, len(BATCHES)), *range(number)]:
            check(decode(shared, BATCHES[i]), expected[i])

    all_at_once(work, 2)
    with contextlib.ExitStack() as stack:  # in turn: all are begun before the first is over
        begun = [stack.enter_context(shared.batch(shared.models, each)) for each in BATCHES]
        while any(batch.live for batch in begun):
            for batch in begun:
                if batch.live:
                    batch.iterate()
        for batch, wanted in zip(begun, expected):
            check([best for (best,) in batch.finished], wanted)
    assert counters(shared.stats) == {n: 3 * value for n, value in counters(alone.stats).items()}
    times = shared.stats.times()
    assert sum(times[name] for name in SECTIONS) <= shared.stats.total_seconds + 1e-6


def change_weights(generator):
    """Put other weights into the decoders of verifier and drafter."""
    models = [generator.models[0], getattr(generator.drafter, "model", None)]
    layers = {layer for model in models if model is not None for layer in model.decoder.layers}
    for layer in layers:
        layer.fc1.weight = torch.nn.Parameter(1.5 * layer.fc1.weight.detach())


@pytest.mark.parametrize("case", CASES)
def test_a_batch_decodes_with_the_weights_of_one_reading(case):
    """Other weights are read, and used, in the middle of a batch."""
    sample = BATCHES[4]

    def fresh():
        models = [copy.deepcopy(TOYS[case].verifier())]
        return make_generator(case, models=models, lossless=False)

    generator, changed = fresh(), fresh()
    change_weights(changed)
    old, new = (facts(decode(each, sample)) for each in (fresh(), changed))
    assert new != old
    outputs = []

    def read_again(number):
        change_weights(generator)
        generator.refresh()
        outputs.append(facts(decode(generator, sample)))

    with generator.batch(generator.models, sample) as batch:
        batch.iterate()
        all_at_once(read_again, 1)
        while batch.live:
            batch.iterate()
        assert facts([best for (best,) in batch.finished]) == old
    assert outputs == [new]
