"""Decode the same sentences with several systems in turn, and time each."""

from __future__ import annotations

import argparse
import dataclasses
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch
from fairseq.dataclass.configs import GenerationConfig

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.generation.builder import build_generator
from fairseq_specdec.generation.stats import DecodingStats


class System:
    """One way to decode.

    Attributes:
        name: row of the table.
        seconds: wall time of each batch, in the order of the batches.
        tokens: output token ids of each sentence, </s> included, by sentence id.
        steps: decoder steps (stock) or iterations (ours), summed over batches.
        stats: our counters, or None for stock.
    """

    def __init__(self, name: str, generator: Any, stats: Optional[DecodingStats]) -> None:
        self.name = name
        self.generator = generator
        self.stats = stats
        self.seconds: List[float] = []
        self.tokens: Dict[int, List[int]] = {}
        self.steps = 0
        self.history: Dict[int, List[Any]] = {}

    def decode(self, models: List[Any], sample: Dict[str, Any], keep: bool) -> None:
        """Decode one batch; time and output are kept unless this is a warm-up."""
        started = time.perf_counter()
        hypotheses = self.generator.generate(models, sample)
        if sample["net_input"]["src_tokens"].is_cuda:
            torch.cuda.synchronize()
        spent = time.perf_counter() - started
        if not keep:
            return
        self.seconds.append(spent)
        self.steps += max(h[0].get("steps", len(h[0]["tokens"])) for h in hypotheses)
        for number, hypothesis in zip(sample["id"].tolist(), hypotheses):
            self.tokens[number] = hypothesis[0]["tokens"].tolist()
            self.history[number] = hypothesis[0].get("history", [])


def generation_flags(**changes: Any) -> argparse.Namespace:
    """fairseq's generation defaults, with changes."""
    return argparse.Namespace(**dict(dataclasses.asdict(GenerationConfig()), **changes))


def stock(task: Any, models: List[Any], beam: int, **flags: Any) -> System:
    """Stock fairseq beam search."""
    # The parent's method: the decoding task would build our generator.
    build = super(type(task), task).build_generator
    generator = build(models, generation_flags(beam=beam, **flags))
    return System(f"fairseq beam {beam}", generator, None)


def ours(task: Any, models: List[Any], strategy: str, **settings: Any) -> System:
    """One of our strategies.

    Args:
        task: holds the dictionaries.
        models: the ensemble.
        strategy: ``--strategy``.
        settings: other decoding flags by field name; ``name`` and ``flags`` (a dictionary of
            generation flags) apart.
    """
    name = settings.pop("name", strategy)
    flags = settings.pop("flags", {})
    stats = DecodingStats()
    generator = build_generator(
        models,
        task.source_dictionary,
        task.target_dictionary,
        generation_flags(beam=1, **flags),
        decoding_settings(strategy=strategy, **settings),
        stats=stats,
    )
    return System(name, generator, stats)


def run_paired(
    systems: List[System],
    models: List[Any],
    batches: List[Dict[str, Any]],
    warm_up: int = 3,
    progress: Optional[Callable[[List[Any]], Iterator[Any]]] = None,
) -> None:
    """Decode every batch with every system in turn, so that a drift of the machine hits all.

    Args:
        systems: filled with times and outputs.
        models: the ensemble.
        batches: fairseq samples.
        warm_up: batches decoded beforehand by every system, not counted.
        progress: wraps the list of batches, for a progress bar.
    """
    for sample in batches[:warm_up]:
        for system in systems:
            system.decode(models, sample, keep=False)
    for system in systems:
        if system.stats is not None:
            fresh = DecodingStats()
            system.stats.__dict__.update(
                {k: v for k, v in fresh.__dict__.items() if k != "stopwatch"}
            )
            system.stats.stopwatch.__dict__.update(fresh.stopwatch.__dict__)
    for i, sample in enumerate(progress(batches) if progress else batches):
        # The order turns with the batch: nobody always runs on caches that another warmed.
        for j in range(len(systems)):
            systems[(i + j) % len(systems)].decode(models, sample, keep=True)
