"""Figures of a device for benchmarks/gpu.sh: check, cost of an iteration, identity."""

import argparse
import json
import pathlib
import platform
import statistics
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import random_pair
import torch

from fairseq_specdec.bench.timing import generation_flags
from fairseq_specdec.config import decoding_settings
from fairseq_specdec.costs import devices
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.engine.devices import check_device
from fairseq_specdec.engine.eager.decoder import layer_bytes
from fairseq_specdec.io import provenance

ROWS = (1, 8, 32)
STRATEGIES = ("greedy", "gad")
ITERATIONS = 20
GRAPHS_PAY = 1.05  # so many times as fast are iterations with CUDA graphs where these are used
ALIKE = 8  # a decoder of so many times the bytes, or a fraction of them, costs alike

Timed = tuple[float, float]
"""Tokens of a pass, all rows together, and its milliseconds."""


def check(given: argparse.Namespace) -> int:
    """The card, the wheel and what both can do; 1 where they do not fit."""
    figures: dict[str, Any] = {"python": platform.python_version(), "torch": torch.__version__}
    figures.update(provenance.origin(("fairseq_specdec", "torch", "fairseq", "numpy")))
    if given.device == "cuda":
        if not torch.cuda.is_available():
            print(f"torch {torch.__version__} finds no CUDA device; see docs/gpu.md")
            return 1
        try:
            check_device(torch.device("cuda", 0))
        except ValueError as error:
            print(error)
            return 1
        figures.update(
            card=torch.cuda.get_device_name(0),
            capability=torch.cuda.get_device_capability(0),
            archs=torch.cuda.get_arch_list(),
            cuda=torch.version.cuda,
            cards=torch.cuda.device_count(),
            memory_bytes=torch.cuda.get_device_properties(0).total_memory,
        )
    ones = torch.ones(64, 64).to(given.device)
    total = float((ones @ ones).sum())
    figures["product"] = total
    (given.folder / "check.json").write_text(json.dumps(figures, indent=1, default=str) + "\n")
    facts = ("card", "capability", "cuda", "torch", "python", "versions")
    lines = [f"- {name}: {figures[name]}" for name in facts if name in figures]
    (given.folder / "check.md").write_text("\n".join(lines) + "\n")
    return int(total != 64.0**3)


def fitted(verifying: Sequence[Timed], drafting: Sequence[Timed]) -> tuple[float, float]:
    """The costs by which passes took these times: the line of least squares of relative errors
    through the verifier's, and the median of what the drafter's take by it.

    Args:
        verifying: passes of the verifier, one over a single token among them.
        drafting: passes of the drafter.
    """
    weighed = [(1 / time, tokens / time) for tokens, time in verifying]
    matrix = torch.tensor(weighed, dtype=torch.double)
    ones = torch.ones(len(weighed), 1, dtype=torch.double)
    start, token = torch.linalg.lstsq(matrix, ones).solution.flatten().tolist()
    column = max(0.0, token / (start + token))
    one = statistics.median(time / (1 + column * (tokens - 1)) for tokens, time in verifying)
    passes = [time / one / (1 + column * (tokens - 1)) for tokens, time in drafting]
    return column, statistics.median(passes)


def write_costs(path: pathlib.Path, costs: Sequence[devices.Device]) -> None:
    """A table that ``devices.read`` reads."""
    path.write_text(json.dumps([row._asdict() for row in costs], indent=1) + "\n")


class Pair:
    """Random models of the papers' size on a device.

    Args:
        device: its name.
        vocabulary: tokens.
        size: a key of ``random_pair.SIZES``.
    """

    def __init__(self, device: str, vocabulary: int, size: str = "base", half: bool = False):
        self.device = device
        settings = argparse.Namespace(vocabulary=vocabulary, sentences=max(ROWS), length=27, seed=1)
        with tempfile.TemporaryDirectory() as folder:
            self.task = random_pair.write(settings, folder)
        chosen = random_pair.SIZES[size]
        self.verifier = random_pair.verifier(chosen, 1, self.task)
        self.drafter = random_pair.drafter(chosen, self.task, 1, 25)
        (self.verifier.half() if half else self.verifier).to(device)

    def generator(self, strategy: str, graphs: str = "off") -> Any:
        words = (self.task.source_dictionary, self.task.target_dictionary)
        given = {"strategy": strategy, "backend": "torch", "cuda_graphs": graphs}
        if strategy == "gad":
            given["drafter_path"] = __file__  # any file: `load` reads none
        return build_generator(
            [self.verifier], *words, generation_flags(beam=1, min_len=150, max_len_b=200),
            decoding_settings(**given), load=lambda *_: self.drafter,
            overrides=Overrides(always_draft=True),
        )  # fmt: skip

    def sample(self, rows: int) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(1)
        words = torch.randint(4, len(self.task.source_dictionary), (rows, 27), generator=generator)
        words[:, -1] = self.task.source_dictionary.eos()
        lengths = torch.full((rows,), 27)
        net_input = {"src_tokens": words.to(self.device), "src_lengths": lengths.to(self.device)}
        return {"id": torch.arange(rows), "net_input": net_input}

    def cost(
        self, verifying: Sequence[Timed], drafting: Sequence[Timed], graphs: int
    ) -> devices.Device:
        """The table's row for this device, and for decoders not much smaller or larger."""
        weight = next(self.verifier.parameters())
        size = layer_bytes(self.verifier.decoder)
        place = devices.device_name(weight.device), str(weight.dtype).split(".")[1]
        bounds = size // ALIKE, size * ALIKE
        return devices.Device(*place, *bounds, *fitted(verifying, drafting), graphs)

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def milliseconds(
        self, strategy: str, rows: int, iterations: int, graphs: str = "off"
    ) -> dict[str, float]:
        """Of an iteration and of its ``drafter`` and ``verifier``: medians of single ones, after a
        batch that warmed up; and ``drafted``, draft tokens of a row.

        Args:
            graphs: ``--cuda-graphs``.
        """
        generator, sample = self.generator(strategy, graphs), self.sample(rows)
        samples: dict[str, list[float]] = {}
        for _ in range(2):
            samples = {"iteration": [], "drafter": [], "verifier": [], "drafted": []}
            with generator.batch([self.verifier], sample) as batch:
                for _ in range(iterations):
                    self.wait()
                    before, drafted = batch.stats.stopwatch.lap(), batch.stats.drafted
                    batch.iterate()
                    self.wait()
                    spent = zip(batch.stats.stopwatch.lap(), before)
                    for name, (now, then) in zip(("iteration", "drafter", "verifier"), spent):
                        samples[name].append(1000 * (now - then))
                    samples["drafted"].append((batch.stats.drafted - drafted) / rows)
        return {name: statistics.median(each) for name, each in samples.items()}


def rows_that_gain(table: Sequence[dict[str, Any]]) -> int:
    """Up to how many rows iterations of all strategies were faster with CUDA graphs, by the rows of
    the table of one precision; 0 where they never were, or were not measured."""
    most = 0
    for row in table:
        pairs = [(row[name], row.get(f"{name}_graphs")) for name in STRATEGIES]
        if any(fast is None or slow < GRAPHS_PAY * fast for slow, fast in pairs):
            break
        most = row["rows"]
    return most


def measured(
    pair: Pair, precision: str, small: bool
) -> tuple[list[dict[str, Any]], devices.Device]:
    """The rows of one precision, and what passes cost: with CUDA graphs where these are faster."""
    table: list[dict[str, Any]] = []
    times: dict[tuple[int, str, str], dict[str, float]] = {}
    for rows in ROWS[:1] if small else ROWS:
        row: dict[str, Any] = {"precision": precision, "rows": rows}
        for strategy in STRATEGIES:
            for graphs in ("off",) if small else ("off", "on"):
                medians = pair.milliseconds(strategy, rows, 3 if small else ITERATIONS, graphs)
                times[rows, strategy, graphs] = medians
                row[strategy if graphs == "off" else f"{strategy}_graphs"] = medians["iteration"]
        row["gad_in_greedy"] = row["gad"] / row["greedy"]
        if not small:
            row["peak_bytes"] = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        table.append(row)
    most = rows_that_gain(table)
    verifying: list[Timed] = []
    drafting: list[Timed] = []
    for (rows, _, graphs), one in times.items():
        if (graphs == "on") == (rows <= most):
            drafted = one["drafted"]
            verifying.append((rows * (1 + drafted), one["verifier"]))
            drafting += [(rows * drafted, one["drafter"])] if drafted else []
    return table, pair.cost(verifying, drafting, most)


def iterations(given: argparse.Namespace) -> int:
    """Milliseconds of an iteration by strategy and rows, with CUDA graphs and without, what a draft
    iteration costs in greedy ones, and the table of pass costs by which a batch is drafted for on
    this device."""
    small = given.device == "cpu"
    table: list[dict[str, Any]] = []
    costs: list[devices.Device] = []
    for precision in ("fp32",) if small else ("fp32", "fp16"):
        pair = Pair(given.device, 1000 if small else 32000, half=precision == "fp16")
        rows, cost = measured(pair, precision, small)
        table += rows
        costs.append(cost)
    write_costs(given.folder / "devices.json", costs)
    if not small:
        write_costs(devices.TABLE, devices.merged(devices.read(devices.TABLE), costs))
    (given.folder / "iterations.json").write_text(json.dumps(table, indent=1) + "\n")
    lines = ["Transformer-base, 6+6 layers; drafter 12+2, k = 25; milliseconds of an iteration", ""]
    columns = ("greedy", "greedy_graphs", "gad", "gad_graphs", "gad_in_greedy")
    titles = ("greedy", "with graphs", "gad", "with graphs", "gad / greedy", "peak MB")
    lines += ["| | rows | " + " | ".join(titles) + " |", "|---|--:|" + "--:|" * len(titles)]
    for row in table:
        numbers = " | ".join(f"{row[name]:.2f}" if name in row else "-" for name in columns)
        peak = f"{row['peak_bytes'] / 1e6:.0f}" if "peak_bytes" in row else "-"
        lines.append(f"| {row['precision']} | {row['rows']} | {numbers} | {peak} |")
    lines += ["", "In passes of the verifier over one token: a further token; a drafter's pass", ""]
    lines += [f"- {one.dtype}: {one.column:.4f}, {one.drafter:.3f}" for one in costs]
    lines += ["", "CUDA graphs are used by default up to so many rows", ""]
    lines += [f"- {one.dtype}: {one.graphs}" for one in costs]
    (given.folder / "iterations.md").write_text("\n".join(lines) + "\n")
    return 0


def printed(folder: pathlib.Path) -> list[str]:
    """The hypotheses in what fairseq-generate wrote, in their order, without scores."""
    lines = []
    for file in sorted(folder.glob("generate-*.txt")):
        lines += file.read_text(encoding="utf-8").splitlines()
    return ["\t".join(line.split("\t")[::2]) for line in lines if line.startswith("H-")]


def same(given: argparse.Namespace) -> int:
    """Whether two folders of --results-path hold the same hypotheses; 1 where they do not."""
    one, other = map(printed, given.folders)
    equal = sum(a == b for a, b in zip(one, other))
    text = f"{equal} of {len(one)} hypotheses at beam 5 are those of stock fairseq"
    (given.folder / "beam5_identity.md").write_text(text + "\n")
    print(text)
    return int(not one or len(one) != len(other) or equal < len(one))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = {"check": check, "iterations": iterations, "same": same}
    parser.add_argument("what", choices=commands)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("folders", nargs="*", type=pathlib.Path)
    given = parser.parse_intermixed_args()
    return commands[given.what](given)


if __name__ == "__main__":
    sys.exit(main())
