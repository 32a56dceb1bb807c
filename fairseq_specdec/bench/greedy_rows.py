"""This engine's plain decoding as a row: what drafts gain is the speed over that."""

import argparse
from collections.abc import Sequence
from typing import Any

from fairseq_specdec.config import OWN_FIELDS

from ..io.flag_values import flag_of
from .systems import Plan, make_plan

STRATEGIES = ("greedy", "none")
# Settings of the engine, which change how long a pass of the verifier takes.
ENGINE = ("verifier_dtype", "backend", "cuda_graphs")
# Settings that are of no strategy.
SHARED = (*ENGINE, "threads", "cost_table", "keep_weights")
DEFAULTS = {field.name: field.default for field in OWN_FIELDS}


def key(plan: Plan) -> tuple[Any, ...]:
    """Beam, whether samples are drawn, and settings of the engine: rows that are alike in these
    differ by their drafts."""
    search = (plan.generation["beam"], bool(plan.generation.get("sampling")))
    return (*search, *(plan.settings[name] for name in ENGINE))


def added(plans: Sequence[Plan], shared: Any) -> list[Plan]:
    """A greedy row for each beam and engine that systems have and no greedy row has."""
    plain = {name: value for name, value in DEFAULTS.items() if name not in SHARED}
    flags = argparse.Namespace(**{**vars(shared), **plain})
    there = {key(plan) for plan in plans if plan.settings["strategy"] in STRATEGIES}
    names = {plan.name for plan in plans}
    rows: dict[tuple[Any, ...], Plan] = {}
    for plan in plans:
        mine = key(plan)
        if mine in there or mine in rows:
            continue
        beam, samples, *engine = mine
        words = ["--strategy", "greedy", "--beam", str(beam)]
        words += ["--nbest", str(plan.generation["nbest"])]
        words += ["--sampling"] * (samples and not shared.sampling)
        name = "greedy" + f" beam {beam}" * (beam > 1) + " sampling" * samples
        for setting, value in zip(ENGINE, engine):
            if value != DEFAULTS[setting]:
                words += [flag_of(setting), str(value)]
                name += f" {value}"
        while name in names:
            name += ", plain"
        names.add(name)
        rows[mine] = make_plan(name, words, flags)
    return list(rows.values())


def of(plan: Plan, plans: Sequence[Plan]) -> Plan | None:
    """The greedy row that a row is compared with: of the same beam and engine, of its own verifier
    if there is one. Returns None where there is no such row, and for stock and other engines, which
    have no settings."""
    if not plan.settings:
        return None
    ours = [each for each in plans if each.settings.get("strategy") in STRATEGIES]
    if plan in ours:
        return plan
    alike = [each for each in ours if key(each) == key(plan)]
    own = [each for each in alike if each.paths == plan.paths]
    return next(iter(own or alike), None)
