"""The stopwatch with CUDA events, which stand-ins play: how many live, and on which device."""

import weakref
from collections import Counter

import pytest
import torch
from toy_strategies import decode, make_generator
from toy_translation import make_sample, sentences

from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.stats import DecodingStats, Stopwatch

SECOND = torch.device("cuda", 1)
MILLISECONDS = 2.0


class FakeEvent:
    """A ``torch.cuda.Event`` that notes the stream it is recorded on."""

    alive = weakref.WeakSet()
    most = 0
    streams = set()

    def __init__(self, enable_timing):
        assert enable_timing
        FakeEvent.alive.add(self)
        FakeEvent.most = max(FakeEvent.most, len(FakeEvent.alive))
        self.stream = None

    def record(self, stream="stream of the current device"):
        self.stream = stream
        FakeEvent.streams.add(stream)

    def synchronize(self):
        assert self.stream is not None

    def elapsed_time(self, other):
        assert self.stream == other.stream
        return MILLISECONDS


@pytest.fixture
def events(monkeypatch):
    """Every stopwatch believes that batches lie on the second GPU."""
    on = Stopwatch.on
    monkeypatch.setattr(FakeEvent, "most", 0)
    monkeypatch.setattr(FakeEvent, "streams", set())
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")
    monkeypatch.setattr(Stopwatch, "on", lambda self, device: on(self, SECOND))
    return FakeEvent


@pytest.mark.parametrize("case", ["greedy", "gad", "sps"])
def test_no_event_outlives_its_batch(events, case):
    generator = make_generator(case, backend="torch")
    stats, before = generator.stats, 0.0
    for seed in (1, 2, 3):
        decode(generator, make_sample(sentences(6, seed)))
        assert len(events.alive) == 0
        assert stats.stopwatch.seconds["verifier"] > before
        before = stats.stopwatch.seconds["verifier"]
    assert events.streams == {"stream of cuda:1"}
    times = stats.times()
    drafts, verifications = times["drafter"] * 1000, times["verifier"] * 1000
    begun = 0 if case == "greedy" else 3 * MILLISECONDS  # it has no drafter to begin a batch
    assert drafts - begun == pytest.approx(verifications - 3 * MILLISECONDS)


def test_a_batch_that_is_given_up_is_settled_when_it_is_left(events, monkeypatch):
    monkeypatch.setattr(Stopwatch, "lap", lambda self: (0.0, 0.0, 0.0))  # a GPU's is not asked
    generator = make_generator("gad", backend="torch")
    with generator.batch(generator.models, make_sample(sentences(6, 1))) as batch:
        batch.iterate()
        assert len(events.alive) > 0 and batch.live
    assert len(events.alive) == 0
    assert generator.stats.stopwatch.seconds["verifier"] > 0
    decode(generator, make_sample(sentences(6, 2)))
    assert len(events.alive) == 0


def test_on_the_cpu_the_clock_is_read(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", None)
    stopwatch = Stopwatch()
    stopwatch.on(torch.device("cpu"))
    with stopwatch("drafter"):
        pass
    assert stopwatch.seconds["drafter"] > 0


@pytest.mark.parametrize("backend", ["torch", "native"])
@pytest.mark.parametrize("case", ["gad", "iad", "sps"])
def test_acceptance_by_position_is_that_of_the_trace(case, backend):
    """Counted from what was drafted and what the verifier would have chosen."""
    generator = make_generator(case, backend=backend, overrides=Overrides(keep_trace=True))
    outputs = decode(generator, make_sample(sentences(24, 7)))
    judged, accepted = Counter(), Counter()
    for hypothesis in outputs:
        for one in hypothesis["iterations"]:
            for place, (token, choice) in enumerate(zip(one.draft, one.choices)):
                judged[place] += 1
                if token != choice:
                    break
                accepted[place] += 1
    shares = generator.stats.acceptance_by_position
    assert len(shares) == len(judged) > 2
    assert shares == [accepted[place] / judged[place] for place in range(len(judged))]
    assert 0 < min(shares[:2]) and any(share < 1 for share in shares)
    twice = DecodingStats()
    twice.add(generator.stats)
    twice.add(generator.stats)
    assert twice.acceptance_by_position == shares and sum(twice.judged.values()) > 0
    once, added = generator.stats.as_dict(), twice.as_dict()
    for name in ("emitted_tokens", "undrafted_iterations", "seconds", "seconds_verifier"):
        assert added[name] == pytest.approx(2 * once[name])
    assert added["mean_accepted_tokens"] == once["mean_accepted_tokens"] > 1


def test_nothing_drafted_has_no_acceptance():
    generator = make_generator("greedy")
    decode(generator, make_sample(sentences(3, 7)))
    assert generator.stats.acceptance_by_position == []
