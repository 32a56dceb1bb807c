"""The figures of a measured system: one row of the tables, and those of single sentences."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy

from fairseq_specdec.decoding.stats import SECTIONS
from fairseq_specdec.decoding.strategies import STRATEGIES

from .identity import Comparison, compare
from .operations import operations
from .systems import Plan
from .text import Quality, Texts
from .timing import System

ITERATION_FIGURES = (
    "tok", "tok_without_eos", "iter", "verifier_calls", "accepted_percent",
    "acceptance_by_position", "steps_a_pass", "nodes_a_pass", "fallback_percent",
    "rollback_percent", "early_exit_percent", "layers", "multiply_adds_m", "weights_read_m",
)  # fmt: skip


class Context(NamedTuple):
    """What a row is compared with."""

    # beam, greedy: stock beam 5 and beam 1
    beam: System
    greedy: System
    # this engine without drafts, as of ``greedy_rows.of``; None where it is no row
    plain: System | None
    reference: System  # stock of the row's own verifier and constraints, at its beam
    quality: Quality | None  # BLEU of the systems, or None


def section_times(system: System) -> dict[str, float] | None:
    """Seconds by section over all passes; None where they were not measured."""
    if system.stats is not None:
        return system.stats.times()
    steps = system.steps_of_stock
    if steps is None:
        return None
    steps.stopwatch.settle()
    seconds = steps.stopwatch.seconds
    spent = sum(sum(passes) for passes in system.times)
    return {**seconds, "rest": max(0.0, spent - sum(seconds.values()))}


def comparisons(system: System, reference: System, nbest: int) -> dict[int, Comparison]:
    """Of each sentence, whether the first hypotheses are the reference's."""
    outputs = reference.outputs
    return {n: compare(system.outputs[n], outputs[n], nbest) for n in sorted(outputs)}


def _iterations(system: System, plan: Plan) -> dict[str, Any]:
    """Tokens and iterations; None for engines that do not count them.

    Stock takes an iteration for each token of a sentence; a batch runs to its longest output.
    """
    stats, steps, sentences = system.stats, system.steps_of_stock, len(system.tokens)
    figures: dict[str, Any] = dict.fromkeys(ITERATION_FIGURES)
    if steps is not None:
        tokens = sum(map(len, system.tokens.values()))
        calls = steps.calls / (len(system.times[0]) * sentences)
        figures.update(tok=1.0, tok_without_eos=(tokens - sentences) / tokens)
        figures.update(iter=tokens / sentences, verifier_calls=calls)
    elif stats is not None:
        figures.update(
            tok=stats.mean_accepted_tokens,
            tok_without_eos=stats.mean_accepted_tokens_without_eos,
            iter=stats.mean_iterations,
            verifier_calls=system.steps / sentences,
            accepted_percent=100 * stats.acceptance_rate,
            acceptance_by_position=stats.acceptance_by_position or None,
        )
        if plan.generation["beam"] > 1:
            figures.update(steps_a_pass=stats.mean_accepted_tokens)
            figures.update(nodes_a_pass=stats.scored / stats.iterations)
        strategy = STRATEGIES[plan.settings["strategy"]]
        if not strategy.verifies:
            figures.update(verifier_calls=0.0, accepted_percent=None)
        if strategy.falls_back:
            figures.update(fallback_percent=100 * stats.fallback_share)
            figures.update(rollback_percent=100 * stats.rollback_share)
        if strategy.exits is not None:
            figures.update(early_exit_percent=100 * stats.early_exit_share)
            figures.update(layers=stats.mean_layers)
        if plan.generation["beam"] == 1:
            figures.update(operations(system, plan.settings["strategy"]))
    return figures


def _times(system: System, context: Context) -> dict[str, Any]:
    """Times in milliseconds a sentence, and speeds."""
    sentences, total = len(system.tokens), sum(system.seconds)
    tokens = sum(map(len, system.tokens.values()))
    decoded = len(system.times[0]) * sentences  # in all passes
    # A sentence waits until its batch is done.
    waits = [1000 * s for s, batch in zip(system.seconds, system.sentences) for _ in batch]
    percentiles = numpy.percentile(waits, (50, 95, 99)).tolist()
    seconds = section_times(system)
    return {
        "ms_mean": 1000 * total / sentences,
        "cpu_ms_mean": 1000 * system.cpu / decoded,
        **dict(zip(("ms_median", "ms_p95", "ms_p99"), percentiles)),
        "speed_beam5": sum(context.beam.seconds) / total,
        "speed_beam1": sum(context.greedy.seconds) / total,
        "speed_greedy": context.plain and sum(context.plain.seconds) / total,
        "tokens_per_second": tokens / total,
        "sentences_per_second": sentences / total,
        "ms_by_section": seconds and {name: 1000 * seconds[name] / decoded for name in SECTIONS},
        "output_tokens": tokens,
    }


def row(system: System, plan: Plan, context: Context) -> dict[str, Any]:
    """All figures of a system, times in milliseconds, shares in percent."""
    compared = list(comparisons(system, context.reference, plan.generation["nbest"]).values())
    scored, quality = any(each[0].totals for each in system.outputs.values()), context.quality
    iterations, times = _iterations(system, plan), _times(system, context)
    return {
        "system": system.name,
        "strategy": plan.settings.get("strategy"),
        "bleu": quality and quality.score[system.name],
        "exact_percent": quality and quality.exact[system.name],
        "bleu_compound": quality and quality.compound and quality.compound[system.name],
        "identical_percent": 100.0 * sum(each.same for each in compared) / len(compared),
        "near_ties": sum(each.near_tie for each in compared) if scored else None,
        "score_difference": max(each.away for each in compared) if scored else None,
        **iterations,
        **times,
        "ms_per_iteration": iterations["iter"] and times["ms_mean"] / iterations["iter"],
        "unsteady_sentences": len(system.unsteady),
        "counters": system.stats.as_dict() if system.stats is not None else None,
    }


def passes(systems: Sequence[System]) -> dict[str, Any]:
    """Times of every batch (median of its passes) and of every pass, by system."""
    return {
        "ms_by_batch": {s.name: [round(1000 * t, 4) for t in s.seconds] for s in systems},
        "seconds_by_pass": {s.name: [round(sum(p), 6) for p in zip(*s.times)] for s in systems},
    }


def by_sentence(systems: Sequence[System], texts: Texts, data: Any) -> dict[str, Any]:
    """What ``--by-sentence`` adds to a run, for intervals and paired tests.

    Returns:
        ``id``, the sentences in the order of decoding, as in ``ms_by_batch``; ``reference_words``,
        or None where the data have no references; and ``systems``, by name: ``tokens`` (of the
        output, </s> included), ``iterations`` (calls of the verifier; of stock, decoder steps),
        ``words`` and ``matches`` (those of 1 to 4 words that BLEU counts), or None.
    """
    order = [number for batch in systems[0].sentences for number in batch]
    references = texts.references(data, order)
    reference_words: list[int] | None = None
    by_system: dict[str, Any] = {}
    for system in systems:
        outputs = [system.tokens[n] for n in order]
        columns = dict.fromkeys(("tokens", "iterations", "words", "matches"))
        columns.update(tokens=list(map(len, outputs)))
        columns.update(iterations=[system.iterations[n] for n in order])
        if references is not None:
            scores = texts.scores(outputs, references)
            columns.update(words=[int(score.sys_len) for score in scores])
            columns.update(matches=[list(map(int, n)) for n in zip(*(s.counts for s in scores))])
            reference_words = [int(score.ref_len) for score in scores]
        by_system[system.name] = columns
    return {"id": order, "reference_words": reference_words, "systems": by_system}
