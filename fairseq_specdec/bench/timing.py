"""Decode the same sentences with several systems in turn, and time each."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from fairseq.dataclass.configs import GenerationConfig

from fairseq_specdec.decoding.stats import DecodingStats
from fairseq_specdec.io.progress import Counter

from .outputs import Hypothesis, Output, output_of

logger = logging.getLogger(__name__)

Sample = dict[str, Any]
"""A batch as fairseq's datasets collate it."""


def _now(device: torch.device) -> tuple[float, float]:
    """Wall time and processor time in seconds, once a GPU has done what it was asked."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter(), time.process_time()


@dataclasses.dataclass(eq=False)
class System:
    """One way to decode.

    Args:
        generator: its ``generate(models, sample, prefix_tokens)`` is that of fairseq's generators.
        stats: our counters; None of stock and of other engines.
        stock: whether it is fairseq's own beam search.
        prefix_size: forced target tokens, as ``--prefix-size``.
        sampled: whether it draws tokens, so that passes may differ.
        step: the task's ``inference_step``; None to call the generator alone.
        versions: releases of another engine, by name.

    Attributes:
        times: for each batch, the wall time in seconds of every pass over it.
        outputs, tokens: hypotheses of each sentence id, best first; tokens of the best, with </s>.
        sentences: ids of each batch's sentences.
        steps: decoder steps or iterations of each batch's longest output, summed over one pass.
        iterations: those of each sentence id alone.
        cpu: seconds of processor time, of all threads, summed over all passes.
        unsteady: sentences of which a later pass gave another output.
    """

    name: str
    generator: Any
    models: Sequence[Any]
    stats: DecodingStats | None = None
    stock: bool = False
    prefix_size: int = 0
    sampled: bool = False
    step: Callable[..., Any] | None = None
    versions: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.times: list[list[float]] = []
        self.outputs: dict[int, list[Output]] = {}
        self.tokens: dict[int, list[int]] = {}
        self.sentences: list[list[int]] = []
        self.steps = 0
        self.iterations: dict[int, int] = {}
        self.cpu = 0.0
        self.unsteady: set[int] = set()
        if self.stats is not None:
            vars(self.stats).update(vars(DecodingStats()))

    @property
    def seconds(self) -> list[float]:
        """Wall time of each batch, in their order: the median of its passes."""
        return [statistics.median(passes) for passes in self.times]

    def timed(self, sample: Sample) -> tuple[list[list[Hypothesis]], float, float]:
        """Hypotheses of one batch, the seconds that they took, and those of processor time."""
        device = sample["net_input"]["src_tokens"].device
        prefix = sample["target"][:, : self.prefix_size] if self.prefix_size else None
        started, used = _now(device)
        step = self.step or type(self.generator).generate
        hypotheses = step(self.generator, self.models, sample, prefix_tokens=prefix)
        ended, then = _now(device)
        return hypotheses, ended - started, then - used

    def decode(self, sample: Sample, batch: int | None = None, seed: int = 1) -> None:
        """Decode one batch. ``batch``: its number; None for a warm-up, of which nothing is kept."""
        if self.sampled:
            torch.manual_seed(seed)
        hypotheses, spent, used = self.timed(sample)
        if batch is None:
            return
        self.cpu += used
        numbers = sample["id"].tolist()
        outputs = [list(map(output_of, each)) for each in hypotheses]
        best = {number: output[0].tokens for number, output in zip(numbers, outputs)}
        if batch == len(self.times):
            self.times.append([])
            self.sentences.append(numbers)
            steps = [int(h[0].get("steps", len(h[0]["tokens"]))) for h in hypotheses]
            self.steps += max(steps)
            self.iterations.update(zip(numbers, steps))
            self.tokens.update(best)
            self.outputs.update(zip(numbers, outputs))
        self.times[batch].append(spent)
        self.unsteady.update(n for n, tokens in best.items() if self.tokens[n] != tokens)


def generation_flags(**changes: Any) -> argparse.Namespace:
    """fairseq's generation defaults, with changes."""
    return argparse.Namespace(**dict(dataclasses.asdict(GenerationConfig()), **changes))


def run_paired(
    systems: list[System],
    batches: list[Sample],
    warm_up: int = 3,
    repeats: int = 1,
    title: str = "",
    seed: int = 1,
) -> None:
    """Decode every batch with every system in turn, so that a drift of the machine hits all, after
    the first ``warm_up`` batches uncounted. ``seed``: of tokens drawn; differs by batch and pass.
    """
    first = batches[:warm_up]
    with Counter(len(first) + repeats * len(batches), "batch", logger, title=title) as progress:
        for sample in first:
            for system in systems:
                system.decode(sample, None, seed)
            progress.add(1)
        for system in systems:
            system.reset()
        turn = 0
        for _ in range(repeats):
            for i, sample in enumerate(batches):
                # The order turns: nobody always runs on caches that another warmed.
                for j in range(len(systems)):
                    systems[(turn + j) % len(systems)].decode(sample, i, seed + turn)
                turn += 1
                progress.add(1)
