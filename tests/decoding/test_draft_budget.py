"""Drafting less where it does not pay: the same output in other iterations."""

import pytest
import torch
from drafted import compare
from toy_strategies import cases, decode, flags, make_generator, stock, tokens, toys
from toy_translation import assert_diverse, make_sample, sentences, toy_model

from fairseq_specdec.acceptance import Acceptance, AcceptanceRule
from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.draft_budget import (
    NOTHING,
    WHOLE,
    AcceptanceHistory,
    DraftBudget,
    FewRejections,
    Plan,
)
from fairseq_specdec.decoding.iteration import Iteration
from fairseq_specdec.decoding.pace import Pace, Planner

SENTENCES = sentences(12, seed=7)
# So many expected rejected tokens limit no draft.
NO_LIMIT = 10**6


def rows(accepted, proposed, done=0, count=1):
    """An iteration of rows that fared alike."""
    return Iteration(*([each] * count for each in (accepted + 1, done, accepted, 0, proposed)))


def test_without_planning_drafts_are_whole():
    budget = DraftBudget(None)
    for _ in range(50):
        assert budget.plan(3) is WHOLE
        budget.learn(rows(0, 9, count=3))


@pytest.mark.parametrize("most, live, chance", [(4, 1, 0.5), (24, 8, 0.9), (12, 4, 0.4)])
def test_few_rejections_are_those_of_drafts_drawn_token_by_token(most, live, chance):
    size = FewRejections(most).plan(live, chance).size
    generator = torch.Generator().manual_seed(1)
    for tokens_of_one, kept in ((size, True), (size + 1, False)):
        right = torch.rand(40000, tokens_of_one, generator=generator) < chance
        vain = tokens_of_one - right.long().cumprod(1).sum(1).double().mean()
        assert (live * float(vain) <= most + 0.02 * live) == kept


def test_few_rejections_limit_no_draft_that_is_sure():
    assert FewRejections(NO_LIMIT).plan(1, 0.5) is WHOLE


@pytest.mark.parametrize("ends_early", [False, True])
def test_the_chance_is_that_by_which_drafts_are_drawn(ends_early):
    generator = torch.Generator().manual_seed(3)
    for chance in (0.4, 0.7, 0.9):
        budget = DraftBudget(FewRejections(NO_LIMIT), AcceptanceHistory(0.5), ends_early)
        chances = []
        for _ in range(1500):
            budget.plan(2)
            budget.asked = 5
            right = torch.rand(2, 5, generator=generator) < chance
            kept = [int(each.long().cumprod(0).sum()) for each in right]
            budget.learn(Iteration(kept, [0, 0], kept, [0, 0], [5, 5]))
            chances.append(budget.acceptance.chance)
        assert sum(chances[100:]) / len(chances[100:]) == pytest.approx(chance, abs=0.03)


def test_what_a_drafter_that_judges_leaves_out_counts_as_rejected():
    ends_early, plain = (
        DraftBudget(Planner(Pace(0.1, 0.1, measured=False), 8), AcceptanceHistory(0.9), x)
        for x in (1, 0)
    )
    for budget in (ends_early, plain):
        for _ in range(30):
            assert budget.plan(1).size > 2
            budget.learn(rows(2, 2))
    assert ends_early.acceptance.chance < 0.75 < 0.95 < plain.acceptance.chance
    first = plain.acceptance
    plain.learn(rows(0, 0))  # found nothing to copy
    assert plain.acceptance == first


def test_a_sentence_that_ends_inside_its_draft_rejects_nothing():
    budget = DraftBudget(FewRejections(9), AcceptanceHistory(0.5))
    budget.plan(1)
    before = budget.acceptance
    budget.learn(rows(3, 8, done=1))
    assert budget.acceptance.stopped < before.stopped


def test_iterations_booked_together_rest_as_long_as_one_by_one():
    kept = []
    for parts in ([1] * 7, [6, 1]):
        budget = DraftBudget(FewRejections(0))
        assert budget.plan(2).size == 0
        for times in parts:
            budget.learn(rows(0, 0, count=2)._replace(times=times))
        kept.append((budget.begun, budget.rested, budget.acceptance))
    assert kept[0] == kept[1] and kept[0][:2] == (7, kept[0][1]) and kept[0][1] >= 7


def test_rows_are_counted_together():
    many, few = (DraftBudget(FewRejections(NO_LIMIT), AcceptanceHistory(0.5)) for _ in range(2))
    for budget, count in ((many, 5), (few, 1)):
        budget.plan(2)
        kept = [2, 4] * count
        budget.learn(Iteration(kept, [0] * len(kept), kept, [0] * len(kept), [4] * len(kept)))
    assert many.acceptance == few.acceptance


def batches(history, planner, right, count=60, length=20):
    """Sizes asked for in batches of one row, whose drafts are accepted as a whole or not at all."""
    sizes_of_batches = []
    for _ in range(count):
        budget = DraftBudget(planner, history)
        sizes = []
        for _ in range(length):
            plan = budget.plan(1)
            sizes.append(plan.size)
            budget.learn(rows(plan.size if right else 0, plan.size))
        budget.close()
        sizes_of_batches.append(sizes)
    return sizes_of_batches


def test_where_drafts_do_not_pay_they_are_tried_now_and_then_as_the_first_of_a_batch():
    drafted = batches(AcceptanceHistory(0.3), Planner(Pace(0.5, 0.5, measured=False), 10), False)
    assert drafted[0] == [0] * 20
    assert not any(any(sizes[1:]) for sizes in drafted)
    assert 5 <= sum(sizes[0] > 0 for sizes in drafted) <= 20


def test_drafts_come_back_where_tries_succeed():
    drafted = batches(AcceptanceHistory(0.1), Planner(Pace(0.1, 0.2, measured=False), 10), True)
    assert drafted[0] == [0] * 20 and all(size > 0 for size in drafted[-1])


@pytest.mark.parametrize("resumes", [True, False])
def test_drafts_of_a_model_begin_with_the_batch_or_never(resumes):
    planner = Planner(Pace(0.1, 0.2, measured=False), 10, resumes=resumes)
    budget = DraftBudget(planner, AcceptanceHistory(0.9))
    assert planner.plan(30, 0.9).size == 0 < planner.plan(1, 0.9).size
    assert budget.plan(30) == NOTHING and budget.over != resumes
    budget.learn(rows(0, 0, count=30))
    assert (budget.plan(1).size > 0) == resumes
    later = DraftBudget(planner, AcceptanceHistory(0.9))
    assert later.plan(1).size > 0 and not later.over
    assert later.plan(30) == NOTHING and later.over != resumes


def test_a_batch_begins_with_what_was_learnt_before():
    history = AcceptanceHistory(0.9)
    first = DraftBudget(Planner(Pace(0.1, 0.1, measured=False), 8), history)
    for _ in range(20):
        first.plan(1)
        first.learn(rows(0, 5))
    first.close()
    assert DraftBudget(None, history).acceptance == first.acceptance
    assert AcceptanceHistory(0.9).acceptance.chance == pytest.approx(0.9)


@pytest.mark.parametrize("budget", [None, 1, 20])
@pytest.mark.parametrize("case", cases())
def test_any_budget_has_the_same_output(case, budget):
    if toys(case).lossless is None:
        pytest.skip("never lossless")
    planning = None if budget is None else FewRejections(budget)
    generator = make_generator(case, draft_budget=None, overrides=Overrides(planning=planning))
    sample = make_sample(SENTENCES)
    expected = tokens(stock(generator.models, sample, flags()))
    assert_diverse(expected)
    for _ in range(2):  # with what was learnt, too
        assert tokens(decode(generator, sample)) == expected
    whole = make_generator(case)
    decode(whole, sample)
    if whole.stats.drafted and whole.rule.draft_independent and budget == 1:
        assert generator.stats.drafted < 2 * whole.stats.drafted


def test_a_drafter_that_is_always_wrong_costs_few_drafts():
    verifier = [toy_model("post_norm")]
    _, whole = compare(verifier, "wrong")
    _, seldom = compare(verifier, "wrong", spare=1)
    assert whole.accepted == seldom.accepted == 0
    assert seldom.drafted < 0.8 * whole.drafted
    assert seldom.iterations == whole.iterations


def test_where_the_draft_decides_the_output_nothing_changes():
    for case in cases():
        if toys(case).lossless is not None and case != "blockwise":
            continue
        runs = []
        for budget in ({}, {"draft_budget": None}):
            generator = make_generator(case, lossless=False, **budget)
            runs.append(
                (tokens(decode(generator, make_sample(SENTENCES))), generator.stats.drafted)
            )
            assert generator._parts.planning is None
        assert runs[0] == runs[1], case


class Nothing(AcceptanceRule):
    """Accepts no draft token, so that every position is drafted for."""

    lossless = draft_independent = True

    def accept(self, draft, scores):
        return Acceptance(torch.zeros_like(draft.sizes), scores.best()[:, 0])


def drafts(case, monkeypatch, most):
    """Every draft of a run, by what was accepted before it, when ``most`` limits each iteration."""
    generator = make_generator(case, overrides=Overrides(rule=Nothing(), keep_trace=True))
    calls = iter(range(-1, 10**6))  # the first when the batch is opened
    monkeypatch.setattr(DraftBudget, "plan", lambda self, live: Plan(most(next(calls))))
    outputs = decode(generator, make_sample(SENTENCES))
    parts = ((row, part) for row, one in enumerate(outputs) for part in one["iterations"])
    return {(row, part.position): part.draft for row, part in parts if part.draft}


@pytest.mark.parametrize("case", ["gad", "gad-attached", "sps", "blockwise"])
def test_a_drafter_that_was_left_out_catches_up(case, monkeypatch):
    """What it drafts then is what it would have drafted anyway."""
    always = drafts(case, monkeypatch, lambda call: None)
    for skipped in ({0, 1}, {1, 2, 3}, {0, 1, 5, 6}, set(range(0, 99, 2))):
        seldom = drafts(case, monkeypatch, lambda call, s=skipped: 0 if call in s else None)
        assert 0 < len(seldom) < len(always)
        assert all(always[key] == value for key, value in seldom.items())
