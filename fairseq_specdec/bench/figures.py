"""The figures of a measured system: one row of the tables, and those of single sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy
from fairseq.data import LanguagePairDataset

from fairseq_specdec.decoding.stats import SECTIONS
from fairseq_specdec.decoding.strategies import STRATEGIES

from .outputs import Comparison, Figures, Texts, compare
from .systems import Plan
from .timing import System

ITERATION_FIGURES = (
    "tok", "tok_without_eos", "iter", "verifier_calls", "accepted_percent",
    "acceptance_by_position", "fallback_percent", "rollback_percent",
)  # fmt: skip


def comparisons(system: System, reference: System, nbest: int) -> dict[int, Comparison]:
    """Whether, per sentence, the first hypotheses are the reference's."""
    outputs = reference.outputs
    return {n: compare(system.outputs[n], outputs[n], nbest) for n in sorted(outputs)}


def _iterations(system: System, plan: Plan) -> Figures:
    """Tokens and iterations; None for engines that do not count them.

    Stock takes an iteration for each token of a sentence; a batch runs to its longest output.
    """
    stats, sentences = system.stats, len(system.tokens)
    figures: Figures = dict.fromkeys(ITERATION_FIGURES)
    if system.stock:
        tokens = sum(map(len, system.tokens.values()))
        figures.update(tok=1.0, tok_without_eos=(tokens - sentences) / tokens)
        figures.update(verifier_calls=system.steps / sentences, iter=tokens / sentences)
    if stats is None:
        return figures
    strategy = STRATEGIES[plan.settings["strategy"]]
    figures.update(
        tok=stats.mean_accepted_tokens,
        tok_without_eos=stats.mean_accepted_tokens_without_eos,
        iter=stats.mean_iterations,
        verifier_calls=system.steps / sentences if strategy.verifies else 0.0,
        accepted_percent=100 * stats.acceptance_rate if strategy.verifies else None,
        acceptance_by_position=stats.acceptance_by_position or None,
    )
    if strategy.falls_back:
        figures.update(fallback_percent=100 * stats.fallback_share)
        figures.update(rollback_percent=100 * stats.rollback_share)
    return figures


def _times(system: System, bases: Mapping[str, System | None]) -> Figures:
    """Times in milliseconds per sentence, and speeds over other systems."""
    sentences, total = len(system.tokens), sum(system.seconds)
    tokens = sum(map(len, system.tokens.values()))
    decoded = len(system.times[0]) * sentences  # in all passes
    # A sentence waits until its batch is done.
    waits = [1000 * s for s, batch in zip(system.seconds, system.sentences) for _ in batch]
    percentiles = numpy.percentile(waits, (50, 95, 99)).tolist()
    seconds = None if system.stats is None else system.stats.times()
    return {
        "ms_mean": 1000 * total / sentences,
        "cpu_ms_mean": 1000 * system.cpu / decoded,
        **dict(zip(("ms_median", "ms_p95", "ms_p99"), percentiles)),
        **{f"speed_{name}": of and sum(of.seconds) / total for name, of in bases.items()},
        "tokens_per_second": tokens / total,
        "ms_by_section": seconds and {name: 1000 * seconds[name] / decoded for name in SECTIONS},
        "output_tokens": tokens,
    }


def row(
    system: System, plan: Plan, reference: System, bases: Mapping[str, System | None]
) -> Figures:
    """All figures of a system but its quality, times in milliseconds, shares in percent.
    ``reference``: stock with the row's own verifier, constraints and beam. ``bases``: systems that
    its speed is compared with, by name (None where that is no row)."""
    compared = list(comparisons(system, reference, plan.generation["nbest"]).values())
    scored = any(each[0].totals for each in system.outputs.values())
    iterations, times = _iterations(system, plan), _times(system, bases)
    return {
        "system": system.name,
        "strategy": plan.settings.get("strategy"),
        "identical_percent": 100.0 * sum(each.same for each in compared) / len(compared),
        "near_ties": sum(each.near_tie for each in compared) if scored else None,
        "score_difference": max(each.away for each in compared) if scored else None,
        **iterations,
        **times,
        "ms_per_iteration": iterations["iter"] and times["ms_mean"] / iterations["iter"],
        "unsteady_sentences": len(system.unsteady),
        "counters": system.stats.as_dict() if system.stats is not None else None,
    }


def by_sentence(systems: Sequence[System], texts: Texts, data: LanguagePairDataset) -> Figures:
    """What ``--by-sentence`` adds to a run: ``id``, the sentences in the order of decoding, as in
    ``ms_by_batch``; ``reference_words`` (None without references); and ``systems``, by name:
    ``tokens`` of the output, </s> included, ``iterations``, ``words`` and ``matches`` (those of 1
    to 4 words that BLEU counts; None without references)."""
    order = [number for batch in systems[0].sentences for number in batch]
    references = texts.references(data, order)
    reference_words: list[int] | None = None
    by_system: Figures = {}
    for system in systems:
        outputs = [system.tokens[n] for n in order]
        columns: Figures = {"tokens": list(map(len, outputs)), "words": None}
        columns.update(iterations=[system.iterations[n] for n in order], matches=None)
        if references is not None:
            both = zip(map(texts, outputs), references)
            scores = [texts.bleu.corpus_score([mine], [[wanted]]) for mine, wanted in both]
            columns.update(words=[int(score.sys_len) for score in scores])
            columns.update(matches=[list(map(int, n)) for n in zip(*(s.counts for s in scores))])
            reference_words = [int(score.ref_len) for score in scores]
        by_system[system.name] = columns
    return {"id": order, "reference_words": reference_words, "systems": by_system}
