"""A session that begins with its first draft knows what was before."""

import contextlib

import pytest
import torch
from toy_strategies import decode, flags, make_generator, stock, tokens
from toy_translation import assert_diverse, make_sample, sentences

from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.stats import Stopwatch
from fairseq_specdec.drafting.base import DraftSession
from fairseq_specdec.drafting.deferred import DeferredSession
from fairseq_specdec.drafting.plan import NOTHING, Plan
from fairseq_specdec.engine.draft import Draft
from fairseq_specdec.engine.hypotheses import Hypotheses


class Noted(DraftSession):
    """Notes what it is called with."""

    def __init__(self, seen):
        self.seen = seen

    def propose(self, hypotheses, budget=None, costs=None):
        self.seen.append(("propose", budget, costs))
        return Draft.empty(hypotheses.lengths)

    def commit(self, sizes, hidden_states):
        self.seen.append(("commit", sizes.tolist()))

    def select(self, rows, rows_cpu):
        self.seen.append(("select", rows_cpu))

    def close(self):
        self.seen.append("close")


class Drafter:
    def __init__(self):
        self.seen = []

    def open(self, source):
        self.seen.append(("open", source))
        return Noted(self.seen)


def test_it_opens_with_the_first_draft_and_knows_what_was_before():
    drafter, hypotheses = Drafter(), Hypotheses(3, 9, 2, 1, torch.zeros(3, 4).long())
    session = DeferredSession(drafter, "a source")
    sizes, states = torch.tensor([1, 2, 1]), torch.zeros(3, 2, 4)
    assert session.propose(hypotheses, 0).width == 0
    session.commit(sizes, states)
    session.commit(sizes, None)  # says nothing to who was not there
    session.select(torch.tensor([0, 2]), [0, 2])
    assert drafter.seen == []
    session.propose(hypotheses, 4, [0.0] * 5)
    session.commit(sizes, states)
    session.close()
    assert drafter.seen == [
        ("open", "a source"), ("commit", [1, 2, 1]), ("select", [0, 2]),
        ("propose", 4, [0.0] * 5), ("commit", [1, 2, 1]), "close",
    ]  # fmt: skip


def test_one_that_never_drafted_is_never_opened():
    drafter = Drafter()
    DeferredSession(drafter, None).close()
    assert drafter.seen == []


class FromTheEnd:
    """Drafts for few rows alone, so that drafters begin late."""

    resume_gain = 1.5

    def plan(self, live, chance):
        return Plan(4) if live < 6 else NOTHING


@pytest.mark.parametrize("backend", ["auto", "torch"])
@pytest.mark.parametrize("case", ["gad", "gad-attached", "sps", "blockwise"])
def test_outputs_stay_and_late_drafts_are_accepted(case, backend):
    generator = make_generator(
        case, draft_budget=None, backend=backend, overrides=Overrides(planning=FromTheEnd())
    )
    sample = make_sample(sentences(12, seed=7))
    expected = tokens(stock(generator.models, sample, flags()))
    assert tokens(decode(generator, sample)) == expected
    assert_diverse(expected)
    assert generator.stats.undrafted > 0 and generator.stats.accepted > 0


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
    generator = make_generator(
        case, draft_budget=None, backend="torch", overrides=Overrides(planning=FromTheEnd())
    )
    decode(generator, make_sample(sentences(5, seed=7)))
    assert generator.stats.stopwatch.seconds["drafter_encoder"] > 0 and nested == []
