"""Figures of a device for benchmarks/gpu.sh: whether it can be used, time of an iteration."""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
from typing import Any

import random_pair
import result_tables
import torch

from fairseq_specdec.bench.timing import generation_flags
from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.engine.devices import check_device
from fairseq_specdec.environment import cli as environment

ROWS = (1, 8, 32)
STRATEGIES = ("greedy", "gad")
ITERATIONS = 20
SIZE = random_pair.SIZES["base"]


def check(given: argparse.Namespace) -> int:
    """The card, the wheel and what both can do; 1 where they do not fit."""
    (given.folder / "check.md").write_text(environment.table())
    if given.device == "cuda":
        if not torch.cuda.is_available():
            print(f"torch {torch.__version__} finds no CUDA device; see docs/gpu.md")
            return 1
        try:
            check_device(torch.device("cuda", 0))
        except ValueError as error:
            print(error)
            return 1
    ones = torch.ones(64, 64, device=given.device)
    return int(float((ones @ ones).sum()) != 64.0**3)


class Pair:
    """Random models of the papers' size on a device."""

    def __init__(self, device: str, vocabulary: int, half: bool = False):
        self.device = device
        settings = argparse.Namespace(vocabulary=vocabulary, sentences=max(ROWS), length=27, seed=1)
        with tempfile.TemporaryDirectory() as folder:
            self.task = random_pair.write(settings, folder)
        self.verifier = random_pair.verifier(SIZE, self.task, 1)
        self.drafter = random_pair.drafter(SIZE, self.task, 1, 25)
        (self.verifier.half() if half else self.verifier).to(device)

    def generator(self, strategy: str, graphs: str) -> Any:
        dictionaries = (self.task.source_dictionary, self.task.target_dictionary)
        given = {"strategy": strategy, "backend": "torch", "cuda_graphs": graphs}
        if strategy == "gad":
            given["drafter_path"] = __file__  # any file: `load` reads none
        return build_generator(
            [self.verifier], *dictionaries, generation_flags(beam=1, min_len=150, max_len_b=200),
            decoding_settings(**given), load=lambda *_: self.drafter,
            overrides=Overrides(always_draft=True),
        )  # fmt: skip

    def sample(self, rows: int) -> dict[str, Any]:
        generator, source = torch.Generator().manual_seed(1), self.task.source_dictionary
        tokens = torch.randint(4, len(source), (rows, 27), generator=generator)
        tokens[:, -1] = source.eos()
        net_input = {"src_tokens": tokens, "src_lengths": torch.full((rows,), 27)}
        net_input = {name: value.to(self.device) for name, value in net_input.items()}
        return {"id": torch.arange(rows), "net_input": net_input}

    def milliseconds(self, strategy: str, rows: int, iterations: int, graphs: str) -> float:
        """Median of single iterations, after a batch that warmed up. ``graphs``:
        ``--cuda-graphs``."""
        generator, sample = self.generator(strategy, graphs), self.sample(rows)
        wait = torch.cuda.synchronize if self.device == "cuda" else lambda: None
        samples: list[float] = []
        for _ in range(2):
            samples = []
            with generator.batch([self.verifier], sample) as batch:
                for _ in range(iterations):
                    wait()
                    before = batch.stats.stopwatch.lap()[0]
                    batch.iterate()
                    wait()
                    samples.append(1000 * (batch.stats.stopwatch.lap()[0] - before))
        return statistics.median(samples)


def measured(pair: Pair, precision: str, small: bool) -> dict[str, dict[str, Any]]:
    """Figures of one precision, by precision and rows."""
    table: dict[str, dict[str, Any]] = {}
    for rows in ROWS[:1] if small else ROWS:
        row: dict[str, Any] = {"precision": precision, "rows": rows}
        for strategy in STRATEGIES:
            for graphs in ("off",) if small else ("off", "on"):
                median = pair.milliseconds(strategy, rows, 3 if small else ITERATIONS, graphs)
                row[strategy if graphs == "off" else f"{strategy}_graphs"] = median
        if not small:
            row["peak_bytes"] = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        table[f"{precision}, {rows}"] = row
    return table


def iterations(given: argparse.Namespace) -> int:
    """Milliseconds of an iteration by strategy and rows, with CUDA graphs and without."""
    small = given.device == "cpu"
    table: dict[str, dict[str, Any]] = {}
    for precision in ("fp32",) if small else ("fp32", "fp16"):
        pair = Pair(given.device, 1000 if small else 32000, half=precision == "fp16")
        table.update(measured(pair, precision, small))
    (given.folder / "iterations.json").write_text(json.dumps(table, indent=1) + "\n")
    title = "Transformer-base, 6+6 layers; drafter 12+2, k = 25; milliseconds per iteration"
    (given.folder / "iterations.md").write_text(f"{title}\n\n{result_tables.iterations(table)}\n")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = {"check": check, "iterations": iterations}
    parser.add_argument("what", choices=commands)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    return commands[given.what](given)


if __name__ == "__main__":
    sys.exit(main())
