"""How much to draft: what emits most tokens in its time, by times that were measured or are set;
the output is the same in other iterations."""

import types

import numpy as np
import pytest
import torch
from drafted import compare
from hypothesis import given
from hypothesis import strategies as st
from on_gpu import on_gpu
from toy_strategies import TOYS, cases, decode, flags, make_generator, stock, tokens, toys
from toy_translation import assert_diverse, make_sample, sentences, toy_model

from fairseq_specdec.acceptance import Acceptance, AcceptanceRule
from fairseq_specdec.decoding import pace as module
from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.iteration import Iteration
from fairseq_specdec.decoding.pace import (
    CHANCES,
    LONGEST,
    NOTHING,
    WHOLE,
    AcceptanceHistory,
    DraftBudget,
    FewRejections,
    LeastTimes,
    Plan,
    Planner,
    RelaxedTable,
    expected,
    planning_for,
)
from fairseq_specdec.drafting.base import DraftOptions
from fairseq_specdec.drafting.token_choice import chain_candidates
from fairseq_specdec.engine.native import library

SENTENCES = sentences(12, seed=7)
ROWS = (1, 2, 4, 8, 32)


# So many expected rejected tokens limit no draft.
NO_LIMIT = 10**6


def fixed(column, share, longest=20, **more):
    return Planner(longest, column=column, share=share, measured=False, **more)


TIMES = {
    "line": (0.2, 0.4),
    "free drafts": (0.3, 0.0),
    "free passes": (0.0, 0.3),
    "dear": (1.0, 1.0),
}

# ---- times ---------------------------------------------------------------------------------------


def iteration(rows=1, drafted=0, verifying=1.0, drafting=0.0, passes=0, times=1):
    columns = [1] * rows, [0] * rows, [0] * rows, [0] * rows, [drafted] * rows
    seconds = (drafting + verifying, drafting, verifying)
    return Iteration(*columns, passes, seconds, times=times)


def seconds_of(tokens):
    return 1e-3 * (1 + 0.25 * (tokens - 1))


def timed(seconds, places, often=200):
    times = LeastTimes(0.06)
    for count in [1, 1, *places]:
        times.observe(count, seconds(times.place(count)), often)
    times.fit()
    return times


@given(st.lists(st.integers(1, 400), min_size=3, max_size=30))
def test_known_times_are_given_back_and_grow_with_the_tokens(places):
    times = timed(lambda place: 1e-3 * place**0.5, places)
    for count in places:
        place = times.place(count)
        assert place <= count < 1.15 * place + 1
        assert times.at(place) == pytest.approx(1e-3 * place**0.5, rel=0.02)
    line = times.at(np.arange(1, 500))
    assert (line[1:] >= line[:-1] - 1e-12).all() and line[0] > 0


def test_what_was_timed_seldom_is_likely_too_long():
    seldom, often = (timed(lambda place: 1e-3 * place, [8], n).at(8) for n in (3, 300))
    assert 1.42e-3 < seldom < 0.6 * often and often == pytest.approx(8e-3, rel=0.05)
    disturbed = timed(lambda place: 1e-3 * (9 if place == 4 else place), [4, 6])
    assert disturbed.at(4) <= 4e-3


def test_the_least_times_count_and_are_forgotten_slowly():
    times = LeastTimes(0.06)
    for i in range(400):  # three of four passes are disturbed
        times.observe(4, 1e-3 if i % 4 == 2 else 3e-3)
    assert times.least[4] < 1.2e-3
    for _ in range(400):  # another frequency
        times.observe(4, 1.5e-3)
    assert times.least[4] == pytest.approx(1.5e-3, rel=0.01)
    times.observe(4, 0.9e-3)
    assert times.least[4] == 0.9e-3


def test_beyond_what_is_known_times_grow_as_was_guessed():
    times = LeastTimes(0.5)
    assert times.at(3) == 2.0  # in passes over one token
    for count in (4, 4, 4, 5):
        times.observe(count, 1e-3 * count, 1000)
    times.fit()
    assert times.at(1) == pytest.approx(4e-3 / 2.5)
    assert times.at(15) == pytest.approx(5e-3 * (1 + 0.5 * 14) / 3, rel=0.01)
    times.observe(12, 12e-3, 1000)
    times.fit()
    assert times.at(20) == pytest.approx(20e-3, rel=0.02)


def test_drafts_are_timed_by_their_tokens_or_by_their_steps():
    block, steps = Planner(share=0.5), Planner(share=0.5)
    for _ in range(9):
        block.observe(iteration(2, 5, 1e-3, 4e-4), 5)
        steps.observe(iteration(2, 4, 1e-3, 8e-4, passes=4), 4)
    assert block.drafting(2, 5) == pytest.approx(4e-4) == block.drafting(5, 2)
    assert steps.drafting(2, 4) == pytest.approx(8e-4) and steps.drafting(2, 2) < 5e-4
    assert block.drafting(2, 0) == steps.drafting(2, 0) == 0


def planned_by(seconds, draft, chance=0.8, live=1, disturbed=lambda i: 1.0):
    """What is drafted in the end, by a clock that takes so long for a pass and a draft."""
    planner = Planner(10, share=0.5)
    for i in range(2000):
        if i % 20 == 0:
            budget = DraftBudget(planner, AcceptanceHistory(chance))
        budget.history.__init__(chance)
        plan = budget.plan(live)
        factor = disturbed(i)
        done = iteration(
            live, plan.size, factor * seconds(live * (1 + plan.size)), factor * draft * plan.size
        )
        budget.learn(done)
    return planner.plan(live, chance).size


def share_of_best(seconds, draft, size, chance=0.8):
    """Of the rate of the best size that of another."""
    rates = [expected(chance, each) / (seconds(1 + each) + draft * each) for each in range(11)]
    return rates[size] / max(rates)


@pytest.mark.parametrize("noise", [0.0, 0.9], ids=["alone", "beside a load"])
@pytest.mark.parametrize(
    "seconds, draft, drafts",
    [
        (seconds_of, 1e-5, True),
        (seconds_of, 1e-2, False),
        (lambda tokens: 1e-3 * tokens, 1e-5, False),
        (lambda tokens: 1e-3, 0.0, True),
    ],
    ids=["slope", "slow drafts", "slow passes", "flat"],
)
def test_measured_times_decide(seconds, draft, drafts, noise):
    size = planned_by(seconds, draft, disturbed=lambda i: 1 + noise * ((i * 7919) % 10 < 6))
    assert (size > 0) == drafts and share_of_best(seconds, draft, size) > 0.9


def test_passes_without_drafts_are_timed_now_and_then():
    """A drafter that is a model goes on after these, and they are no rest."""
    planner, probes = Planner(4, share=0.1, resumes=False), []
    budget = DraftBudget(planner, AcceptanceHistory(0.9))
    for i in range(6000):
        plan = budget.plan(3)
        if plan.size == 0:
            probes.append((i, plan.iterations))
        budget.learn(iteration(3, plan.size, 1e-3, 1e-4))
        assert not budget.over and budget.history.rested == 0
        budget.history = AcceptanceHistory(0.9)
    assert probes[0] == (0, 4) and 12 <= len(probes) <= 6000 / 128


def test_what_is_not_measured_stays():
    planner = fixed(0.1, 0.1, 4)
    before = planner.plan(1, 0.9)
    planner.observe(iteration(1, 4, 100.0), 4)
    assert planner.plan(1, 0.9) is before and planner.probe(1) is None


# ---- plans ---------------------------------------------------------------------------------------


def rate(planner, live, chance, size):
    """Tokens of a row per second, by definition."""
    emitted = sum(chance**j for j in range(size + 1))
    return emitted / (planner.passes.at(live * (1 + size)) + planner.drafting(live, size))


@pytest.mark.parametrize("live", ROWS)
@pytest.mark.parametrize("name", TIMES)
def test_a_plan_is_the_best_size_where_it_pays(name, live):
    planner = fixed(*TIMES[name])
    for chance in CHANCES:
        planned = planner.plan(live, chance).size
        rates = [rate(planner, live, chance, size) for size in range(21)]
        if planned:
            assert rates[planned] == pytest.approx(max(rates))
        else:
            assert max(rates) <= (1.11 if live > 1 else 1.06) * rates[0]


@pytest.mark.parametrize("ends_early", [False, True])
@pytest.mark.parametrize("name", ["line", "free drafts", "dear"])
def test_plans_grow_with_the_chance_and_shrink_with_the_rows(name, ends_early):
    planner = fixed(*TIMES[name], ends_early=ends_early)
    for live in ROWS:
        sizes = [planner.plan(live, chance).size for chance in CHANCES]
        assert sizes == sorted(sizes) and sizes[0] == 0
    for chance in (0.5, 0.8, 0.98):
        sizes = [planner.plan(live, chance).size for live in ROWS]
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("name", TIMES)
def test_whole_drafts_or_none(name):
    planner = fixed(*TIMES[name], 7, whole=True)
    for chance in CHANCES:
        plan = planner.plan(2, chance)
        gain = rate(planner, 2, chance, 7) / rate(planner, 2, chance, 0)
        assert plan.size == (7 if gain > 1.1 else 0) and plan.trial in (0, 7)


def test_no_plan_is_longer_than_the_drafter_drafts():
    for longest in (0, 1, 7, 10**6):
        planner = fixed(0.0, 0.0, longest)
        assert planner.plan(1, 0.99).size == min(longest, LONGEST)


def test_costs_are_the_tokens_of_the_time_that_verification_takes():
    planner = fixed(*TIMES["line"])
    for live in (1, 3):
        plan = planner.plan(live, 0.9)
        a_second = rate(planner, live, 0.9, plan.size)
        assert len(plan.costs) == plan.size + 1 and plan.costs[0] == 0
        for size, cost in enumerate(plan.costs):
            longer = planner.passes.at(live * (1 + size)) - planner.passes.at(live)
            assert cost == pytest.approx(a_second * longer / live)


def test_tries_are_the_rarer_the_more_they_lose():
    planner = fixed(*TIMES["line"])
    rests = [planner.plan(live, 0.2).rest for live in ROWS]
    assert rests == sorted(rests) and rests[0] < rests[-1]
    for live in ROWS:
        plan = planner.plan(live, 0.2)
        pass_alone = planner.passes.at(live)
        took = planner.passes.at(live * (1 + plan.trial)) + planner.drafting(live, plan.trial)
        lost = took - expected(0.2, plan.trial) * pass_alone
        assert lost <= 0.011 * plan.rest * pass_alone
        assert plan.trial > 0
    assert fixed(*TIMES["line"], resumes=False).plan(1, 0.2).rest > rests[0]


# ---- what is learnt of drafts -------------------------------------------------------------------


def rows(accepted, proposed, done=0, count=1):
    """An iteration of rows that fared alike."""
    return Iteration(*([each] * count for each in (accepted + 1, done, accepted, 0, proposed)))


def test_without_planning_drafts_are_whole():
    budget = DraftBudget(None, AcceptanceHistory(0.5))
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
            chances.append(budget.history.chance)
        assert sum(chances[100:]) / len(chances[100:]) == pytest.approx(chance, abs=0.03)


def test_what_a_drafter_that_judges_leaves_out_counts_as_rejected():
    ends_early, plain = (DraftBudget(fixed(0.1, 0.1, 8), AcceptanceHistory(0.9), x) for x in (1, 0))
    for budget in (ends_early, plain):
        for _ in range(30):
            assert budget.plan(1).size > 2
            budget.learn(rows(2, 2))
    assert ends_early.history.chance < 0.75 < 0.95 < plain.history.chance
    first = vars(plain.history).copy()
    plain.learn(rows(0, 0))  # found nothing to copy
    assert vars(plain.history) == first


def test_a_sentence_that_ends_inside_its_draft_rejects_nothing():
    budget = DraftBudget(FewRejections(9), AcceptanceHistory(0.5))
    budget.plan(1)
    before = budget.history.stopped
    budget.learn(rows(3, 8, done=1))
    assert budget.history.stopped < before


def test_iterations_booked_together_rest_as_long_as_one_by_one():
    kept = []
    for parts in ([1] * 7, [6, 1]):
        budget = DraftBudget(FewRejections(0), AcceptanceHistory(0.5))
        assert budget.plan(2).size == 0
        for times in parts:
            budget.learn(rows(0, 0, count=2)._replace(times=times))
        kept.append((budget.begun, vars(budget.history)))
    assert kept[0] == kept[1] and kept[0][0] == kept[0][1]["rested"] == 7


def test_rows_are_counted_together():
    many, few = (DraftBudget(FewRejections(NO_LIMIT), AcceptanceHistory(0.5)) for _ in range(2))
    for budget, count in ((many, 5), (few, 1)):
        budget.plan(2)
        kept = [2, 4] * count
        budget.learn(Iteration(kept, [0] * len(kept), kept, [0] * len(kept), [4] * len(kept)))
    assert vars(many.history) == vars(few.history)


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
        sizes_of_batches.append(sizes)
    return sizes_of_batches


def test_where_drafts_do_not_pay_they_are_tried_now_and_then_as_the_first_of_a_batch():
    drafted = batches(AcceptanceHistory(0.3), fixed(0.5, 0.5, 10), False)
    assert drafted[0] == [0] * 20
    assert not any(any(sizes[1:]) for sizes in drafted)
    assert 5 <= sum(sizes[0] > 0 for sizes in drafted) <= 20


def test_drafts_come_back_where_tries_succeed():
    drafted = batches(AcceptanceHistory(0.1), fixed(0.1, 0.2, 10), True)
    assert drafted[0] == [0] * 20 and all(size > 0 for size in drafted[-1])


@pytest.mark.parametrize("resumes", [True, False])
def test_drafts_of_a_model_begin_with_the_batch_or_never(resumes):
    planner = fixed(0.1, 0.2, 10, resumes=resumes)
    budget = DraftBudget(planner, AcceptanceHistory(0.9))
    assert planner.plan(30, 0.9).size == 0 < planner.plan(1, 0.9).size
    assert budget.plan(30) == NOTHING and budget.over != resumes
    budget.learn(rows(0, 0, count=30))
    assert (budget.plan(1).size > 0) == resumes
    later = DraftBudget(planner, AcceptanceHistory(0.9))
    assert later.plan(1).size > 0 and not later.over
    assert later.plan(30) == NOTHING and later.over != resumes


# ---- generators ----------------------------------------------------------------------------------


def ready(case, **settings):
    """A generator that has read its weights."""
    made = make_generator(case, **{"draft_budget": None, **settings})
    made.parts()
    return made


@pytest.mark.parametrize("case", ["gad", "gad-attached", "iad", "sps", "blockwise"])
@pytest.mark.parametrize("backend", ["native", "torch"])
def test_times_are_measured_and_the_output_stays(case, backend, monkeypatch):
    if backend == "native" and library.load() is None:
        pytest.skip(library.why_not())
    monkeypatch.setattr(module, "TIMED", True)
    made = ready(case, backend=backend)
    for _ in range(3):
        ours = tokens(decode(made, make_sample(SENTENCES)))
    theirs = tokens(stock(made.models, make_sample(SENTENCES), flags()))
    assert ours == theirs
    assert_diverse(theirs)
    planner = made.parts().planning
    least = planner.passes.least.values()
    assert planner.measured and len(least) > 5 and min(least) > 0


@pytest.mark.parametrize(
    "settings, kind",
    [({}, Planner), ({"draft_budget": 24}, FewRejections), ({"draft_budget": 0}, type(None))],
)
def test_a_budget_that_is_asked_for_decides(settings, kind):
    assert type(ready("gad", **settings).parts().planning) is kind


@pytest.mark.parametrize("case, whole", [("gad", True), ("sps", False), ("iad", False)])
def test_a_gpu_drafts_whole_blocks_and_is_not_timed(case, whole, monkeypatch):
    monkeypatch.setattr(module, "TIMED", True)
    parts, model = ready(case, backend="torch").parts(), TOYS[case].verifier()
    weight = on_gpu(torch.zeros(1))
    card = types.SimpleNamespace(parameters=lambda: iter([weight]), decoder=model.decoder)
    verifier = types.SimpleNamespace(models=[card])
    given = (parts.drafter, parts.options)
    there, here = planning_for(verifier, *given), planning_for(parts.verifier, *given)
    assert (there.whole, there.measured) == (whole, False)
    assert (here.whole, here.measured) == (False, True)
    assert not planning_for(parts.verifier, *given, sampled=True).measured


def test_drafts_end_where_a_token_does_not_pay_unless_a_flag_sets_where():
    if library.load() is None:
        pytest.skip(library.why_not())
    drafted = []
    for backend in ("native", "torch"):
        for least in (None, 0.0):
            made = make_generator(
                "gad-attached", draft_budget=None, draft_confidence=least, backend=backend,
                overrides=Overrides(planning=fixed(0.1, 0.01, 4, ends_early=True)),
            )  # fmt: skip
            decode(made, make_sample(SENTENCES[:1]))
            drafted.append(made.stats.drafted / made.stats.iterations)
    assert drafted[0] < drafted[1] and drafted[2] < drafted[3]
    assert drafted[0] == pytest.approx(drafted[2]) and drafted[1] == pytest.approx(drafted[3])
    assert ready("gad++", draft_confidence=None).parts().drafter.options.confidence == 0.0


# ---- relaxed rules: what is drafted follows from the command -------------------------------------


def texts(generator, sources, size):
    return tokens(decode(generator, {**make_sample(sources), "batch_size": size}))


def relaxed(**settings):
    return make_generator("gad++", lossless=False, **settings)


def test_one_plan_holds_for_any_rows_and_chance():
    history = AcceptanceHistory(0.1)
    budget = DraftBudget(FewRejections(4), history, sentences=8)
    asked = [budget.plan(live) for live in (8, 3, 1)]
    assert asked[0].size > 0 and asked == asked[:1] * 3
    assert DraftBudget(FewRejections(4), history, sentences=2).plan(8).size > asked[0].size


def test_a_table_says_what_relaxed_rules_draft(monkeypatch):
    monkeypatch.setattr(module, "TIMED", True)
    assert isinstance(relaxed(draft_budget=None).parts().planning, RelaxedTable)
    assert RelaxedTable(10).plan(1, 0.8).size == 5
    assert RelaxedTable(3).plan(1, 0.8).size == 3
    assert RelaxedTable(10).plan(2, 0.8) is RelaxedTable(10, quick=True).plan(1, 0.8) is NOTHING
    card = RelaxedTable(10, on_gpu=True).plan(32, 0.8)
    assert card.size == 10 and not any(card.costs)


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


# ---- the output is the same in other iterations --------------------------------------------------


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
