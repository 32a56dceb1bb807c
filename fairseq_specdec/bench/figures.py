"""One row of figures for a measured system."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from fairseq_specdec.decoding.stats import SECTIONS

from .report import figures as common_figures
from .timing import System

# Strategies whose steps are those of Kim et al. 2023, Algorithm 1.
BIG_LITTLE = ("bild", "bild-early-exit")


class Context(NamedTuple):
    """What a row is compared with.

    Attributes:
        beam, greedy: stock beam 5 and beam 1.
        reference: stock beam 1 of the row's own verifier and constraints.
        quality: BLEU by system, or None.
        compound: the same with compounds split, or None.
    """

    beam: System
    greedy: System
    reference: System
    quality: Optional[Dict[str, float]]
    compound: Optional[Dict[str, float]] = None


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` (0 to 1) of the values stay below, interpolated linearly."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def latencies(system: System) -> List[float]:
    """Seconds until each sentence's batch is done, in the order of decoding."""
    return [s for s, batch in zip(system.seconds, system.sentences) for _ in batch]


def section_times(system: System) -> Optional[Dict[str, float]]:
    """Seconds by section over all passes; None where the system does not say."""
    if system.stats is not None:
        return system.stats.times()
    steps = system.steps_of_stock
    if steps is None:
        return None
    steps.stopwatch.settle()
    seconds = dict(steps.stopwatch.seconds)
    spent = sum(sum(passes) for passes in system.times)
    seconds["rest"] = max(0.0, spent - sum(seconds.values()))
    return seconds


def tok_without_eos(system: System) -> Optional[float]:
    """Tokens an iteration as the authors of GAD and SpecDec count them: without the </s> of each
    sentence. Stock takes an iteration for each token, </s> included; None where nobody counts."""
    if system.stats is not None:
        return system.stats.mean_accepted_tokens_without_eos
    if system.steps_of_stock is None:
        return None
    tokens = sum(len(output) for output in system.tokens.values())
    return (tokens - len(system.tokens)) / tokens


def row(system: System, strategy: Optional[str], context: Context) -> Dict[str, Any]:
    """All figures of a system, times in milliseconds, shares in percent.

    Args:
        system: measured.
        strategy: its ``--strategy``; None for stock and peers.
        context: see :class:`Context`.
    """
    quality = context.quality or {system.name: None}
    common = common_figures(system, context.reference, context.beam, quality)
    stats, steps = system.stats, system.steps_of_stock
    sentences = len(system.tokens)
    passes = len(system.times[0])
    total = sum(system.seconds)
    waits = [1000 * s for s in latencies(system)]
    seconds = section_times(system)
    calls: Optional[float] = None
    if steps is not None:
        calls = steps.calls / (passes * sentences)
    elif stats is not None:
        calls = system.steps / sentences
    tokens = sum(len(t) for t in system.tokens.values())
    big_little = stats is not None and strategy in BIG_LITTLE
    return {
        "system": system.name,
        "strategy": strategy,
        "bleu": common["quality"],
        "bleu_compound": context.compound and context.compound[system.name],
        "identical_percent": common["identical_percent"],
        "tok": common["tok"] if calls is not None else None,
        "tok_without_eos": tok_without_eos(system),
        # Of stock, the steps that a sentence's own output takes; a batch runs to its longest.
        "iter": common["iter"] if stats else tokens / sentences if steps else None,
        "verifier_calls": calls,
        "accepted_percent": common["accepted_percent"],
        "fallback_percent": 100 * stats.fallback_share if stats and big_little else None,
        "rollback_percent": 100 * stats.rollback_share if stats and big_little else None,
        "ms_mean": common["ms_per_sentence"],
        "cpu_ms_mean": 1000 * system.cpu / (passes * sentences),
        "ms_median": percentile(waits, 0.5),
        "ms_p95": percentile(waits, 0.95),
        "ms_p99": percentile(waits, 0.99),
        "speed_beam5": common["speed_beam5"],
        "speed_beam1": sum(context.greedy.seconds) / total,
        "tokens_per_second": tokens / total,
        "sentences_per_second": sentences / total,
        "ms_by_section": seconds
        and {name: 1000 * seconds[name] / (passes * sentences) for name in SECTIONS},
        "output_tokens": tokens,
        "unsteady_sentences": len(system.unsteady),
        "counters": stats.as_dict() if stats is not None else None,
    }


def differing(system: System, reference: System) -> List[int]:
    """Ids of the sentences whose output differs from the reference's."""
    return [n for n in sorted(reference.tokens) if system.tokens[n] != reference.tokens[n]]


def edit_distance(one: Sequence[int], other: Sequence[int]) -> int:
    """Levenshtein's: fewest insertions, deletions and substitutions from one to the other."""
    before = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        now = [i]
        for j, right in enumerate(other, 1):
            now.append(min(before[j] + 1, now[-1] + 1, before[j - 1] + (left != right)))
        before = now
    return before[-1]


def edit_ratios(system: System, data: Any) -> List[float]:
    """Edit distance of each sentence's source and output over the source's length (Ge et al. 2022,
    Figure 5), </s> left out, in the order of decoding.

    Source and target must share a dictionary.
    """
    ratios = []
    for batch in system.sentences:
        for number in batch:
            source = [int(t) for t in data.src[number]][:-1]
            output = system.tokens[number][:-1]
            ratios.append(edit_distance(source, output) / max(1, len(source)))
    return ratios


def speed_ups(system: System, beam: System) -> List[float]:
    """How many times faster each batch is than with ``beam``, in the order of decoding."""
    return [theirs / mine for mine, theirs in zip(system.seconds, beam.seconds)]
