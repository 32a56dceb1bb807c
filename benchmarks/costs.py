"""Predicted and measured microseconds of passes and drafts by their tokens.

    python benchmarks/costs.py data-bin/demo_ende [--isa avx2] >> benchmarks/costs.md

Passes are those of decoding: whole drafts of every size, one sentence at a time, the least of all
iterations of a size. Run it on an idle machine, on one core (``taskset -c 1``).
"""

from __future__ import annotations

import argparse
import collections
import sys
from typing import Dict, List, Sequence, Tuple

from fairseq_specdec.bench import instruction_sets

if __name__ == "__main__":  # before torch is loaded
    instruction_sets.hold(sys.argv)

import pathlib

import torch

from fairseq_specdec.costs.passes import PassTimes
from fairseq_specdec.costs.tables import of_machine
from fairseq_specdec.decoding.planning import times
from fairseq_specdec.engine.native.library import load
from fairseq_specdec.hub import SpeculativeTranslator

FORMATS = ("fp32", "int8")
Times = Dict[int, float]


def measured(folder: str, number_format: str, lines: Sequence[str]) -> Tuple[Times, Times]:
    """Least microseconds of passes by their tokens, and of drafts by theirs."""
    passes, drafts = collections.defaultdict(list), collections.defaultdict(list)
    for size in range(11):
        given = {"strategy": "greedy", "verifier_dtype": number_format}
        if size:
            given.update(strategy="gad", block_size=size, draft_budget=0)
        translator = SpeculativeTranslator.from_pretrained(folder, **given)
        for _ in range(5):
            for line in lines:
                trace = translator.translate(line, return_trace=True).trace
                for each in trace.iterations:
                    drafted = len(each.draft)
                    passes[drafted + 1].append(1000 * each.verifier_ms)
                    if size and drafted == size:
                        drafts[size].append(1000 * each.drafter_ms)
    return tuple({n: _low(each) for n, each in sorted(found.items())} for found in (passes, drafts))


def _low(values: List[float]) -> float:
    """The tenth part of them is faster."""
    return sorted(values)[len(values) // 10]


def predicted(folder: str, number_format: str) -> PassTimes:
    """The model's times for a pair."""
    translator = SpeculativeTranslator.from_pretrained(
        folder, strategy="gad", verifier_dtype=number_format
    )
    translator.translate("one")
    generator = translator.generator
    parts = generator.parts()
    return times(parts.verifier, generator.drafter, parts.drafter, "auto")


def row(name: str, model: List[float], found: Times) -> str:
    """One row of the table: predicted / measured."""
    cells = [f"{1e6 * a:.0f} / {b:.0f}" for a, b in zip(model, found.values())]
    return f"| {name} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="of a demo pair")
    parser.add_argument("--isa", help="as of specdec-bench")
    parser.add_argument("--limit", type=int, default=12, help="sentences (default: 12)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    library = load()
    assert library is not None, "needs the native engine"
    of_machine.cache_clear()
    source = next(pathlib.Path(args.folder).glob("heldout.en"))
    lines = source.read_text(encoding="utf-8").splitlines()[: args.limit]
    sizes = range(1, 12)
    print(f"\n{of_machine(library).processor}, {library.variant}; predicted / measured us\n")
    print("| tokens | " + " | ".join(map(str, sizes)) + " |")
    print("|---|" + "--:|" * len(sizes))
    for number_format in FORMATS:
        model = predicted(args.folder, number_format)
        passes, drafts = measured(args.folder, number_format, lines)
        print(row(f"pass, {number_format}", [model.verifying(n) for n in passes], passes))
        print(row(f"draft beside {number_format}", [model.drafting(1, n) for n in drafts], drafts))


if __name__ == "__main__":
    main()
