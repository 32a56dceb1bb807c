"""What the library has of ``MaskLimits`` and ``DraftBudget``, against these on random limits."""

import copy
from itertools import accumulate
from random import Random
from types import SimpleNamespace

import pytest
from toy_strategies import flags
from toy_translation import (
    EOS,
    PAD,
    make_sample,
    make_task,
    sentences,
    toy_attached_drafter,
    toy_drafter,
    toy_model,
)

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.decoding.draft_budget import DraftBudget, Planning
from fairseq_specdec.decoding.native_chains import NativeChains
from fairseq_specdec.drafting import DraftOptions, InputCopyDrafter, NarBlockDrafter
from fairseq_specdec.drafting.input_copy import InputCopySession
from fairseq_specdec.drafting.mask_count import MaskLimits
from fairseq_specdec.drafting.native_block import NativeBlockSession
from fairseq_specdec.drafting.plan import Plan
from fairseq_specdec.engine.native import library

SENTENCES = sentences(24, seed=7)


def drafter_of(kind):
    if kind == "iad":
        return InputCopyDrafter(PAD, EOS)
    model = toy_drafter()
    if kind in ("gad-attached", "gad-head"):
        layers = 1 if kind == "gad-attached" else 0
        model = toy_attached_drafter("pre_norm", 4, 80, chain_width=16, decoder_layers=layers)
    options = DraftOptions(4, PAD, EOS, confidence=0.4 if kind == "gad-unsure" else 0.0)
    return NarBlockDrafter(copy.deepcopy(model), options)


class NarrowPlans(Planning):
    """Plans that hold for chances near the one that they are made for."""

    def __init__(self, random):
        self.random = random

    def plan(self, live, chance):
        low, high = (chance + sign * self.random.uniform(0, 0.03) for sign in (-1, 1))
        return Plan(self.random.randint(1, 4), low=low, high=high)


def added(lengths, done):
    return [length + size for length, size in zip(lengths, done.sizes)]


def why_ended(loop, limits, plan, ends_early, means, start, rounds):
    """Check what one call did, draft by draft. Returns what ended it: a row, no room for a draft,
    or the plan. ``means``: those that it began with. ``start``: lengths of the rows."""
    budget = DraftBudget(None, ends_early=ends_early)
    budget.acceptance, budget.asked = means, plan.size
    for number, lengths in enumerate(accumulate(rounds, added, initial=start)):
        if number > 0:
            if any(rounds[number - 1].done):
                return "row"
            budget.learn(rounds[number - 1])
        masks = limits.masks(
            SimpleNamespace(shortest=min(lengths), longest=max(lengths)), plan.size
        )
        holds = number == 0 or plan.low <= budget.acceptance.chance < plan.high
        assert (number < loop.loop.drafts) == (masks > 0 and holds)
        if number == loop.loop.drafts:
            learnt = loop.loop.accepted, loop.loop.stopped
            assert learnt == pytest.approx(tuple(budget.acceptance), rel=1e-12)
            return "plan" if masks > 0 else "room"
        sizes, room = list(map(len, loop.of(number))), [limits.max_len - each for each in lengths]
        if ends_early or loop.loop.copy:
            assert all(size <= min(plan.size, left) for size, left in zip(sizes, room))
        else:
            assert sizes == [min(masks, left) for left in room]
    return "tie"


@pytest.mark.skipif(library.load() is None, reason="no native library here")
@pytest.mark.parametrize("kind", ["iad", "gad", "gad-unsure", "gad-attached", "gad-head"])
def test_a_call_drafts_and_learns_as_python_would(kind, monkeypatch):
    model, words, ends = toy_model("pre_norm"), make_task().tgt_dict, set()
    speculate, calls = NativeChains.speculate, []

    def begun(session, rows, *given):
        if kind != "iad" and not hasattr(session, "drawn"):
            session.drawn = True
            session.limits = session.limits._replace(
                positions=random.choice([None, *[random.randint(3, 14)] * 3]),
                whole_blocks=kind == "gad" and random.random() < 0.5,
                row_independent=random.random() < 0.5,
            )
        loop = begin(session, rows, *given)
        if loop is not None:
            calls.append((session, loop))
        return loop

    def checked(chains, drafts, max_iterations, plan):
        budget, start = chains.general.budget, list(chains.general.rows.lengths_cpu)
        means = budget.acceptance
        rounds = speculate(chains, drafts, max_iterations, plan)
        for session, loop in calls:
            limits = getattr(session, "limits", None)
            limits = limits or MaskLimits(99, session.max_len, 0, None, False)
            ends.add(why_ended(loop, limits, plan, budget.ends_early, means, start, rounds))
        calls.clear()
        return rounds

    session = InputCopySession if kind == "iad" else NativeBlockSession
    begin = session.begin_loop
    monkeypatch.setattr(session, "begin_loop", begun)
    monkeypatch.setattr(NativeChains, "speculate", checked)
    for seed in range(20):
        random = Random(seed)
        generator = build_generator(
            [model], words, words, flags(max_len_b=random.randint(3, 25)),
            decoding_settings(strategy="greedy", backend="native"),
            overrides=Overrides(drafter_of(kind), planning=NarrowPlans(random)),
        )  # fmt: skip
        first = random.randrange(len(SENTENCES) - 4)
        chosen = SENTENCES[first : first + random.randint(1, 4)]
        generator.generate([model], make_sample(chosen))
    assert ends >= ({"row", "plan"} if kind == "iad" else {"row", "plan", "room"})
