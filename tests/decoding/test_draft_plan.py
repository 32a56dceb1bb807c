"""How much to draft: what emits most tokens in its time, by a model of times."""

import math

import pytest

from fairseq_specdec.costs.passes import PassTimes, linear
from fairseq_specdec.decoding.draft_plan import CHANCES, LONGEST, Planner, expected

ROWS = (1, 2, 4, 8, 32)
# A line; tiles of six rows; weights that are read from memory.
TIMES = {
    "line": linear(0.2, 0.4),
    "free drafts": linear(0.3, 0.0),
    "tiles": PassTimes(
        lambda tokens: 1 + 0.5 * math.ceil(tokens / 6), lambda rows, size: 0.1 * rows * size
    ),
    "memory": PassTimes(lambda tokens: max(1, tokens / 16), lambda rows, size: 0.3),
    "dear": linear(1.0, 1.0),
    "booked": linear(0.1, 0.0)._replace(beside=0.5),
}


def rate(times, live, chance, size):
    """Tokens of a row per second, by definition."""
    emitted = sum(chance**j for j in range(size + 1))
    drafting = times.drafting(live, size) + times.beside if size else 0.0
    return emitted / (times.verifying(live * (1 + size)) + drafting)


@pytest.mark.parametrize("live", ROWS)
@pytest.mark.parametrize("name", TIMES)
def test_a_plan_is_the_best_size_where_it_pays(name, live):
    times = TIMES[name]
    planner = Planner(times, 20)
    for chance in CHANCES:
        planned = planner.plan(live, chance).size
        rates = [rate(times, live, chance, size) for size in range(21)]
        assert rates[planned] >= rates[0]
        if planned:
            assert rates[planned] == pytest.approx(max(rates))
        else:
            assert max(rates) <= 1.11 * rates[0]


def test_drafts_of_a_model_have_to_promise_more():
    """Where they are made, they are as long; somewhere only those of no model pay."""
    times = linear(0.4, 0.1)
    copies, models = Planner(times, 20), Planner(times, 20, resumes=False)
    pairs = [(copies.plan(1, chance), models.plan(1, chance)) for chance in CHANCES]
    assert all(model.size in (0, copy.size) for copy, model in pairs)
    assert {bool(copy.size) + bool(model.size) for copy, model in pairs} == {0, 1, 2}
    assert min(model.gain for _, model in pairs if model.size) > 1.2


@pytest.mark.parametrize("ends_early", [False, True])
@pytest.mark.parametrize("name", ["line", "free drafts", "dear"])
def test_plans_grow_with_the_chance_and_shrink_with_the_rows(name, ends_early):
    planner = Planner(TIMES[name], 20, ends_early)
    for live in ROWS:
        sizes = [planner.plan(live, chance).size for chance in CHANCES]
        assert sizes == sorted(sizes) and sizes[0] == 0
    for chance in (0.5, 0.8, 0.98):
        sizes = [planner.plan(live, chance).size for live in ROWS]
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("live", ROWS)
@pytest.mark.parametrize("name", TIMES)
def test_whole_drafts_or_none(name, live):
    times = TIMES[name]
    planner, sizes = Planner(times, 7, whole=True), set()
    for chance in CHANCES:
        plan = planner.plan(live, chance)
        sizes.add(plan.size)
        gain = rate(times, live, chance, 7) / rate(times, live, chance, 0)
        assert (plan.size > 0) == (gain > (1.1 if live > 1 else 1.05))
        assert plan.trial in (0, 7)
    assert sizes <= {0, 7}


def test_no_plan_is_longer_than_the_drafter_drafts():
    for longest in (0, 1, 7, 10**6):
        planner = Planner(linear(0.0, 0.0), longest)
        assert planner.plan(1, 0.99).size == min(longest, LONGEST)


@pytest.mark.parametrize("ends_early", [False, True])
@pytest.mark.parametrize("name", TIMES)
def test_a_plan_holds_around_its_chance(name, ends_early):
    planner = Planner(TIMES[name], 20, ends_early)
    for live in (1, 4):
        for chance in CHANCES:
            plan = planner.plan(live, chance)
            assert plan.low <= chance < plan.high
            assert planner.plan(live, chance + 1e-9) == plan
            for other in CHANCES:
                if plan.low <= other < plan.high:
                    there = planner.plan(live, other)
                    assert (there.size > 0) == (plan.size > 0)
                    if not ends_early:
                        kept = rate(TIMES[name], live, other, plan.size)
                        assert kept >= 0.979 * rate(TIMES[name], live, other, there.size)


def test_costs_are_the_tokens_of_the_time_that_verification_takes():
    times = TIMES["line"]
    for live in (1, 3):
        plan = Planner(times, 20).plan(live, 0.9)
        a_second = rate(times, live, 0.9, plan.size)
        assert len(plan.costs) == plan.size + 1 and plan.costs[0] == 0
        for size, cost in enumerate(plan.costs):
            longer = times.verifying(live * (1 + size)) - times.verifying(live)
            assert cost == pytest.approx(a_second * longer / live)


def test_a_drafter_that_judges_is_asked_for_more():
    for chance in (0.6, 0.75, 0.9):
        plain, ends_early = (
            Planner(TIMES["line"], 20, each).plan(1, chance).size for each in (False, True)
        )
        assert ends_early >= plain
    assert ends_early > plain


def test_tries_are_the_rarer_the_more_they_lose():
    planner = Planner(TIMES["line"], 20)
    rests = [planner.plan(live, 0.2).rest for live in ROWS]
    assert rests == sorted(rests) and rests[0] < rests[-1]
    for live in ROWS:
        plan = planner.plan(live, 0.2)
        took = TIMES["line"].verifying(live * (1 + plan.trial))
        took += TIMES["line"].drafting(live, plan.trial)
        lost = took - expected(0.2, plan.trial) * TIMES["line"].verifying(live)
        assert lost <= 0.011 * plan.rest * TIMES["line"].verifying(live)
        assert plan.trial > 0
