"""Sessions of drafters: opened where drafts are planned, and left where they end."""

import contextlib

import pytest
from toy_strategies import decode, flags, make_generator, stock, tokens
from toy_translation import assert_diverse, make_sample, sentences

from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.pace import NOTHING, Plan, Planning
from fairseq_specdec.decoding.stats import Stopwatch
from fairseq_specdec.drafting.base import SilentSession

MODELS = ["gad", "gad-attached", "sps", "blockwise"]
SAMPLE = make_sample(sentences(12, seed=7))


class WhileMany(Planning):
    """Drafts for several rows alone."""

    resumes = False

    def __init__(self, least):
        self.least = least

    def plan(self, live, chance):
        return Plan(4) if live >= self.least else NOTHING


def generator_of(case, least, **settings):
    overrides = Overrides(planning=WhileMany(least))
    return make_generator(case, draft_budget=None, overrides=overrides, **settings)


@pytest.mark.parametrize("backend", ["auto", "torch"])
@pytest.mark.parametrize("case", MODELS)
def test_outputs_stay_where_drafts_end_within_a_batch(case, backend):
    generator = generator_of(case, 6, backend=backend)
    expected = tokens(stock(generator.models, SAMPLE, flags()))
    assert_diverse(expected)
    with generator.batch(generator.models, SAMPLE) as batch:
        joined = []
        while batch.live:
            batch.iterate()
            joined.append(not batch.drafts.never_drafts)
    assert tokens([hypothesis for (hypothesis,) in batch.finished]) == expected
    assert joined[0] and not joined[-1] and joined == sorted(joined, reverse=True)
    assert generator.stats.undrafted > 0 and generator.stats.accepted > 0


@pytest.mark.parametrize("backend", ["auto", "torch"])
@pytest.mark.parametrize("case", MODELS)
def test_a_batch_without_drafts_opens_no_session(case, backend):
    generator = generator_of(case, 13, backend=backend)
    with generator.batch(generator.models, SAMPLE) as batch:
        list(batch.results())
        assert isinstance(batch.drafts, SilentSession)
    expected = tokens(stock(generator.models, SAMPLE, flags()))
    assert tokens([hypothesis for (hypothesis,) in batch.finished]) == expected
    assert generator.stats.drafted == generator.stats.stopwatch.seconds["drafter_encoder"] == 0


@pytest.mark.parametrize("case", ["gad", "sps"])  # drafters with an encoder of their own
def test_no_time_is_counted_twice(case, monkeypatch):
    """A session that opens within what is timed as drafting would count its encoder as both."""
    timed, within, nested = Stopwatch.__call__, [], []

    @contextlib.contextmanager
    def noted(self, section):
        nested.extend((outer, section) for outer in within)
        within.append(section)
        with timed(self, section):
            yield
        within.pop()

    monkeypatch.setattr(Stopwatch, "__call__", noted)
    generator = generator_of(case, 1, backend="torch")
    decode(generator, SAMPLE)
    assert generator.stats.stopwatch.seconds["drafter_encoder"] > 0 and nested == []
