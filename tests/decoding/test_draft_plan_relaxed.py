"""gad++: what is drafted follows from the command, not from the machine or from other sentences."""

import pytest
from toy_strategies import decode, make_generator, tokens
from toy_translation import make_sample, sentences

from fairseq_specdec.costs import tables
from fairseq_specdec.costs.passes import linear
from fairseq_specdec.decoding.draft_budget import (
    AcceptanceMeans,
    DraftBudget,
    FewRejections,
    OnePlan,
)
from fairseq_specdec.decoding.draft_plan import Planner
from fairseq_specdec.drafting.base import DraftOptions
from fairseq_specdec.drafting.chain_search import chain_candidates
from fairseq_specdec.drafting.plan import NOTHING
from fairseq_specdec.engine.native import library

SENTENCES = sentences(12, seed=7)


def texts(generator, sources, size):
    return tokens(decode(generator, {**make_sample(sources), "batch_size": size}))


def relaxed(**settings):
    return make_generator("gad++", lossless=False, **settings)


def test_one_plan_holds_for_any_rows_and_chance():
    budget = DraftBudget(OnePlan(FewRejections(4), 8, 0.8))
    asked = [budget.plan(8)]
    budget.acceptance = AcceptanceMeans.of(0.1)
    asked += [budget.plan(live) for live in (8, 3, 1)]
    assert asked[0].size > 0 and asked == asked[:1] * 4
    more = OnePlan(FewRejections(4), 2, 0.8).plan(8, 0.8)
    assert more.size > asked[0].size


def test_drafts_are_longer_where_more_is_accepted_than_the_drafter_expects():
    planner = Planner(linear(0.1, 0.0), 8)
    known, plan = planner.plan(1, 0.8), OnePlan(planner, 1, 0.8).plan(1, 0.8)
    assert plan.size == known.size > 0
    assert all(0 < ours < theirs for ours, theirs in zip(plan.costs[1:], known.costs[1:]))
    assert OnePlan(Planner(linear(2.0, 0.0), 8), 1, 0.8).plan(1, 0.8) is NOTHING


def test_shipped_figures_decide(monkeypatch):
    if library.load() is None:
        pytest.skip(library.why_not())

    def refuse(*_):
        raise AssertionError("measured figures were asked for")

    monkeypatch.setattr(tables, "of_machine", refuse)
    monkeypatch.delenv(tables.ENVIRONMENT, raising=False)
    made = relaxed(draft_budget=None)
    assert isinstance(made.parts().planning, Planner)
    with pytest.raises(AssertionError, match="measured figures"):
        make_generator("gad", draft_budget=None).parts()


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_the_size_of_a_full_batch_decides(backend):
    if backend == "native" and library.load() is None:
        pytest.skip(library.why_not())
    drafted = []
    for size in (None, 12, 2):
        made = relaxed(draft_budget=6, backend=backend)
        texts(made, SENTENCES, size)
        drafted.append(made.stats.drafted / made.stats.iterations)
    assert drafted[0] == drafted[1] < drafted[2]


@pytest.mark.parametrize("case", ["gad++", "gad++-budget"])
def test_the_text_depends_on_no_other_sentence(case):
    if library.load() is None:
        pytest.skip(library.why_not())

    def drafted(sources, budget=9):
        made = make_generator(case, lossless=False, draft_budget=budget, backend="native")
        return texts(made, sources, 4)

    alone = [drafted([source])[0] for source in SENTENCES]
    assert drafted(SENTENCES) == alone
    assert drafted(SENTENCES[::-1])[::-1] == alone
    assert alone != drafted(SENTENCES, 1)  # drafts do matter


def test_drafts_of_a_row_have_as_many_candidates_beside_others():
    options = DraftOptions(4, 1, 2)
    assert chain_candidates(options)[0] > chain_candidates(options)[1]
    one, several = chain_candidates(DraftOptions(4, 1, 2, row_independent=True))
    assert one == several == chain_candidates(options)[0]
    assert relaxed().drafter.options.row_independent
    assert not make_generator("gad").drafter.options.row_independent
