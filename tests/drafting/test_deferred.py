"""A session that begins with its first draft knows what was before."""

import pytest
import torch
from toy_strategies import decode, flags, make_generator, stock, tokens
from toy_translation import assert_diverse, make_sample, sentences

from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.drafting.base import DraftSession
from fairseq_specdec.drafting.deferred import DeferredSession
from fairseq_specdec.drafting.plan import NOTHING, Plan
from fairseq_specdec.engine.draft_tree import DraftTree
from fairseq_specdec.engine.hypotheses import Hypotheses


class Noted(DraftSession):
    """Notes what it is called with."""

    def __init__(self, seen):
        self.seen = seen

    def propose(self, hypotheses, budget=None, costs=None):
        self.seen.append(("propose", budget, costs))
        return DraftTree.empty(hypotheses.lengths)

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

    again = 1.5

    def plan(self, live, chance):
        return Plan(4) if live < 6 else NOTHING


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("case", ["gad", "gad-attached", "sps", "blockwise"])
def test_outputs_stay_and_late_drafts_are_accepted(case, backend, monkeypatch):
    monkeypatch.setattr("fairseq_specdec.decoding.parts.Planner", FromTheEnd)
    generator = make_generator(
        case, draft_budget=None, backend=backend, overrides=Overrides(planning=FromTheEnd())
    )
    sample = make_sample(sentences(12, seed=7))
    expected = tokens(stock(generator.models, sample, flags()))
    assert tokens(decode(generator, sample)) == expected
    assert_diverse(expected)
    assert generator.stats.undrafted > 0 and generator.stats.accepted > 0
