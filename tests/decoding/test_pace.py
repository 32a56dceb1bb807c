"""How much to draft: what emits most tokens in its time, by times that were measured or are set;
the output is the same in other iterations."""

import itertools

import pytest
import torch
from pairwise import half
from toy_strategies import decode, flags, make_generator, stock, tokens
from toy_translation import make_sample, sentences

from fairseq_specdec.acceptance import Acceptance, AcceptanceRule
from fairseq_specdec.decoding import pace as module
from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.iteration import Iteration
from fairseq_specdec.decoding.pace import (
    CHANCES,
    LONGEST,
    NOTHING,
    DraftBudget,
    FewRejections,
    Plan,
    Planner,
    Planning,
    RelaxedTable,
    expected,
)
from fairseq_specdec.drafting.base import SilentSession
from fairseq_specdec.drafting.token_choice import chain_candidates
from fairseq_specdec.engine.native import library

SENTENCES = sentences(12, seed=7)
SAMPLE = make_sample(SENTENCES)
ROWS = (1, 2, 4, 8, 32)


def fixed(column, share, longest=20, **more):
    return Planner(longest, column=column, share=share, measured=False, **more)


LINE = (0.2, 0.4)
TIMES = {"line": LINE, "free drafts": (0.3, 0.0), "free passes": (0.0, 0.3), "dear": (1.0, 1.0)}

# ---- times ---------------------------------------------------------------------------------------


def iteration(rows=1, drafted=0, verifying=1.0, drafting=0.0, passes=0, times=1):
    columns = [1] * rows, [0] * rows, [0] * rows, [0] * rows, [drafted] * rows
    seconds = (drafting + verifying, drafting, verifying)
    return Iteration(*columns, passes, seconds, times=times)


def test_drafts_are_timed_by_their_tokens_or_by_their_steps():
    block, steps = Planner(share=0.5), Planner(share=0.5)
    for _ in range(9):
        block.observe(iteration(2, 5, 1e-3, 4e-4), 5)
        steps.observe(iteration(2, 4, 1e-3, 8e-4, passes=4), 4)
    assert block.drafting(2, 5) == pytest.approx(4e-4) == block.drafting(5, 2)
    assert steps.drafting(2, 4) == pytest.approx(8e-4) and steps.drafting(2, 2) < 5e-4
    assert block.drafting(2, 0) == steps.drafting(2, 0) == 0


@pytest.mark.parametrize("noise", [0.0, 0.9], ids=["alone", "beside a load"])
@pytest.mark.parametrize(
    "first, further, draft, drafts",
    [(1.0, 0.25, 0.01, True), (1.0, 0.25, 10.0, False), (1.0, 1.0, 0.01, False), (1.0, 0, 0, True)],
    ids=["slope", "slow drafts", "slow passes", "flat"],
)
def test_measured_times_decide(first, further, draft, drafts, noise):
    """Milliseconds of a pass over one token, of each further one, and of a drafted one."""

    def seconds(size):
        return 1e-3 * (first + further * size), 1e-3 * draft * size

    planner, chance = Planner(10, share=0.5), 0.8
    for i in range(2000):
        if i % 20 == 0:
            budget = DraftBudget(planner.begin(chance))
        planner.begin(chance)
        size, factor = budget.plan(1).size, 1 + noise * ((i * 7919) % 10 < 6)
        budget.learn(iteration(1, size, *(factor * each for each in seconds(size))))
    size = planner.plan(1, chance).size
    rates = [expected(chance, each) / sum(seconds(each)) for each in range(11)]
    assert (size > 0) == drafts and rates[size] > 0.9 * max(rates)


def test_passes_without_drafts_are_timed_now_and_then():
    """A drafter that is a model goes on after these, and they are no rest."""
    planner, probes = Planner(4, share=0.1, resumes=False), []
    budget = DraftBudget(planner.begin(0.9))
    for i in range(6000):
        plan = budget.plan(3)
        if plan.size == 0:
            probes.append((i, plan.iterations))
        budget.learn(iteration(3, plan.size, 1e-3, 1e-4))
        assert not budget.over and planner.rested == 0
        planner.begin(0.9)
    assert probes[0] == (0, 4) and 12 <= len(probes) <= 6000 / 128


def rate(planner, live, chance, size):
    """Tokens of a row per second, by definition."""
    emitted = sum(chance**j for j in range(size + 1))
    return emitted / (planner.passes.at(live * (1 + size)) + planner.drafting(live, size))


@pytest.mark.parametrize("name", TIMES)
def test_a_plan_is_the_best_size_where_it_pays(name):
    """Or, of a drafter of whole blocks, the block."""
    planner, whole = fixed(*TIMES[name]), fixed(*TIMES[name], 7, whole=True)
    for live, chance in itertools.product(ROWS, CHANCES):
        planned = planner.plan(live, chance).size
        rates = [rate(planner, live, chance, size) for size in range(21)]
        if planned:
            assert rates[planned] == pytest.approx(max(rates))
        else:
            assert max(rates) <= (1.11 if live > 1 else 1.06) * rates[0]
        if live == 2:
            plan = whole.plan(2, chance)
            assert plan.size == (7 if rates[7] > 1.1 * rates[0] else 0) and plan.trial in (0, 7)
    for longest in (0, 1, 7, 10**6):
        planner = fixed(0.0, 0.0, longest)
        assert planner.plan(1, 0.99).size == min(longest, LONGEST)
    before = planner.plan(1, 0.9)
    planner.observe(iteration(1, 4, 100.0), 4)  # what is not measured stays
    assert planner.plan(1, 0.9) is before and planner.probe(1) is None


def test_costs_are_the_tokens_of_the_time_that_verification_takes():
    planner = fixed(*LINE)
    for live in (1, 3):
        plan = planner.plan(live, 0.9)
        a_second = rate(planner, live, 0.9, plan.size)
        assert len(plan.costs) == plan.size + 1 and plan.costs[0] == 0
        for size, cost in enumerate(plan.costs):
            longer = planner.passes.at(live * (1 + size)) - planner.passes.at(live)
            assert cost == pytest.approx(a_second * longer / live)


def test_tries_are_the_rarer_the_more_they_lose():
    planner = fixed(*LINE)
    rests = [planner.plan(live, 0.2).rest for live in ROWS]
    assert rests == sorted(rests) and rests[0] < rests[-1]
    for live in ROWS:
        plan = planner.plan(live, 0.2)
        pass_alone = planner.passes.at(live)
        took = planner.passes.at(live * (1 + plan.trial)) + planner.drafting(live, plan.trial)
        lost = took - expected(0.2, plan.trial) * pass_alone
        assert lost <= 0.011 * plan.rest * pass_alone
        assert plan.trial > 0
    assert fixed(*LINE, resumes=False).plan(1, 0.2).rest > rests[0]


def test_copies_of_a_text_promise_more_and_are_tried_less_often():
    """Since the text may be another sentence's; what a try finds counts for more then."""
    found = {}
    for copies in (False, True):
        planner = Planner(4, share=0.1, copies=copies)
        for _ in range(30):
            for drafted in (0, 1, 2):
                planner.observe(iteration(1, drafted, 1e-3 * (1 + 0.3 * drafted)), drafted)
        found[copies] = planner.plan(1, 0.42).size, planner.plan(1, 0.1).rest
        planner.rested = 100
        planner.learn(1.0, 0.0)
        found[copies] += (planner.accepted,)
    assert found[False][0] > 0 == found[True][0]
    assert found[False][1] < 60 < found[True][1]
    assert found[True][2] == 2 * found[False][2]
    made = [make_generator(case, draft_budget=None) for case in ("iad", "lookup", "gad")]
    copies = [each.parts().planning.copies for each in made]
    assert copies == [library.load() is not None, False, False]


def rows(accepted, proposed, done=0, count=1):
    """An iteration of rows that fared alike."""
    return Iteration(*([each] * count for each in (accepted + 1, done, accepted, 0, proposed)))


@pytest.mark.parametrize("most, live, chance", [(4, 1, 0.5), (24, 8, 0.9), (12, 4, 0.4)])
def test_few_rejections_are_those_of_drafts_drawn_token_by_token(most, live, chance):
    size = FewRejections(most).plan(live, chance).size
    generator = torch.Generator().manual_seed(1)
    for tokens_of_one, kept in ((size, True), (size + 1, False)):
        right = torch.rand(40000, tokens_of_one, generator=generator) < chance
        vain = tokens_of_one - right.long().cumprod(1).sum(1).double().mean()
        assert (live * float(vain) <= most + 0.02 * live) == kept


@pytest.mark.parametrize("ends_early", [False, True])
def test_the_chance_is_that_by_which_drafts_are_drawn(ends_early):
    """What a drafter that judges its tokens leaves out counts as rejected. Of another, what finds
    nothing to copy counts for nothing."""
    generator = torch.Generator().manual_seed(3)
    for chance in (0.4, 0.7, 0.9):
        budget = DraftBudget(FewRejections(10**6).begin(0.5), ends_early)  # limits no draft
        chances = []
        for _ in range(1500):
            budget.plan(2)
            budget.asked = 5
            right = torch.rand(2, 5, generator=generator) < chance
            kept = [int(each.long().cumprod(0).sum()) for each in right]
            proposed = kept if ends_early else [5, 5]
            budget.learn(Iteration(kept, [0, 0], kept, [0, 0], proposed))
            if not ends_early:
                accepted = budget.planning.accepted
                budget.learn(rows(0, 0))
                assert budget.planning.accepted == accepted
            chances.append(budget.planning.chance)
        assert sum(chances[100:]) / len(chances[100:]) == pytest.approx(chance, abs=0.03)


def batches(planner, right, count=60, length=20):
    """Sizes asked for in batches of one row, whose drafts are accepted as a whole or not at all."""
    sizes_of_batches = []
    for _ in range(count):
        budget = DraftBudget(planner)
        sizes = []
        for _ in range(length):
            plan = budget.plan(1)
            sizes.append(plan.size)
            budget.learn(rows(plan.size if right else 0, plan.size))
        sizes_of_batches.append(sizes)
    return sizes_of_batches


def test_where_drafts_do_not_pay_they_are_tried_now_and_then_as_the_first_of_a_batch():
    drafted = batches(fixed(0.1, 0.2, 10).begin(0.1), True)
    assert drafted[0] == [0] * 20 and all(size > 0 for size in drafted[-1])
    drafted = batches(fixed(0.5, 0.5, 10).begin(0.3), False)
    assert drafted[0] == [0] * 20
    assert not any(any(sizes[1:]) for sizes in drafted)
    assert 5 <= sum(sizes[0] > 0 for sizes in drafted) <= 20


@pytest.mark.parametrize("resumes", [True, False])
def test_drafts_of_a_model_begin_with_the_batch_or_never(resumes):
    planner = fixed(0.1, 0.2, 10, resumes=resumes)
    budget = DraftBudget(planner.begin(0.9))
    assert planner.plan(30, 0.9).size == 0 < planner.plan(1, 0.9).size
    assert budget.plan(30) == NOTHING and budget.over != resumes
    budget.learn(rows(0, 0, count=30))
    assert (budget.plan(1).size > 0) == resumes
    later = DraftBudget(planner.begin(0.9))
    assert later.plan(1).size > 0 and not later.over
    assert later.plan(30) == NOTHING and later.over != resumes


def test_times_are_measured_and_the_output_stays(monkeypatch):
    monkeypatch.setattr(module, "TIMED", True)
    for case, backend in (("gad-attached", "auto"), ("sps", "torch"), ("iad", "auto")):
        made = make_generator(case, draft_budget=None, backend=backend)
        for _ in range(3):
            ours = tokens(decode(made, SAMPLE))
        assert ours == tokens(stock(made.models, SAMPLE, flags()))
        planner = made.parts().planning
        least = planner.passes.least.values()
        assert planner.measured and len(least) > 5 and min(least) > 0


def test_drafts_end_where_a_token_does_not_pay_unless_a_flag_sets_where():
    drafted = []
    for backend, least in itertools.product(("auto", "torch"), (None, 0.0)):
        made = make_generator(
            "gad-attached", draft_budget=None, draft_confidence=least, backend=backend,
            overrides=Overrides(planning=fixed(0.1, 0.01, 4, ends_early=True)),
        )  # fmt: skip
        decode(made, make_sample(SENTENCES[:1]))
        drafted.append(made.stats.drafted / made.stats.iterations)
    assert drafted[0] < drafted[1] and drafted[:2] == pytest.approx(drafted[2:])
    made = make_generator("gad++", draft_budget=None, draft_confidence=None)
    assert made.drafter.options.confidence == 0.0


def test_a_table_says_what_relaxed_rules_draft(monkeypatch):
    monkeypatch.setattr(module, "TIMED", True)
    made = make_generator("gad++", lossless=False, draft_budget=None)
    assert isinstance(made.parts().planning, RelaxedTable)
    # Its drafts of a row have as many candidates beside others.
    assert len(set(chain_candidates(made.drafter.options))) == 1
    assert RelaxedTable(10).plan(1, 0.8).size == 5
    assert RelaxedTable(3).plan(1, 0.8).size == 3
    assert RelaxedTable(10).plan(2, 0.8) is RelaxedTable(10, quick=True).plan(1, 0.8) is NOTHING
    card = RelaxedTable(10, on_gpu=True).plan(32, 0.8)
    assert card.size == 10 and not any(card.costs)


def test_the_text_depends_on_no_other_sentence():
    def drafted(sources, budget=9):
        made = make_generator("gad++", lossless=False, draft_budget=budget)
        return tokens(decode(made, {**make_sample(sources), "batch_size": 4}))

    alone = [drafted([source])[0] for source in SENTENCES]
    assert drafted(SENTENCES) == alone
    assert drafted(SENTENCES[::-1])[::-1] == alone
    assert alone != drafted(SENTENCES, 1)  # drafts do matter


class WhileMany(Planning):
    """Drafts for several rows alone."""

    resumes = False

    def __init__(self, least):
        self.least = least

    def plan(self, live, chance):
        return Plan(4) if live >= self.least else NOTHING


PLANNINGS = {"few": FewRejections(1), "within the batch": WhileMany(6), "none": WhileMany(13)}


@pytest.mark.parametrize(
    "backend, case, name",
    half(["auto", "torch"], ["gad", "gad-attached", "sps", "blockwise"], [*PLANNINGS]),
)
def test_any_plan_has_the_same_output(backend, case, name):
    overrides = Overrides(planning=PLANNINGS[name])
    generator = make_generator(case, draft_budget=None, overrides=overrides, backend=backend)
    expected = tokens(stock(generator.models, SAMPLE, flags()))
    for _ in range(2):  # with what was learnt, too
        with generator.batch(generator.models, SAMPLE) as batch:
            joined = []
            while batch.live:
                batch.iterate()
                joined.append(not batch.drafts.never_drafts)
        assert tokens(best for (best,) in batch.finished) == expected
    stats = generator.stats
    if name == "none":  # no session is opened
        assert isinstance(batch.drafts, SilentSession)
        assert stats.drafted == stats.stopwatch.seconds["drafter_encoder"] == 0
    elif name == "within the batch":
        assert joined == sorted(joined, reverse=True) and joined[0] and stats.accepted > 0
        assert stats.undrafted > 0 and not joined[-1]


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


@pytest.mark.parametrize("case", ["gad-attached", "sps", "blockwise"])
def test_a_drafter_that_was_left_out_catches_up(case, monkeypatch):
    """What it drafts then is what it would have drafted anyway."""
    always = drafts(case, monkeypatch, lambda call: None)
    for skipped in ({0, 1, 5, 6}, set(range(0, 99, 2))):
        seldom = drafts(case, monkeypatch, lambda call, s=skipped: 0 if call in s else None)
        assert 0 < len(seldom) < len(always)
        assert all(always[key] == value for key, value in seldom.items())
