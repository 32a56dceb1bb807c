"""Predicted and measured times of passes and drafts, by their tokens: makes ``costs.md`` anew.

    python benchmarks/costs.py NAME [--isa avx2]

NAME is the processor's, as of processors.py. Writes ``costs/NAME.json`` (with ``--isa`` it is added
to the name), and the page from all of these. Passes are those of decoding: whole drafts of every
size, one sentence at a time; of the iterations of a size that do the same work the fastest tenth,
and of these the mean. The figures of the processor are measured in the same run. On an idle machine
and one core (``taskset -c 1``): 3 minutes. Both demo pairs, in fp32 (stored in halves, as their
weights are), int8 and int7.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import sys
import tempfile
from typing import Any

import isa

if __name__ == "__main__":  # before torch is loaded
    isa.hold()

import torch

from fairseq_specdec.costs.figures import save
from fairseq_specdec.costs.measure import measure
from fairseq_specdec.decoding.planning import times
from fairseq_specdec.engine.native.library import load
from fairseq_specdec.hub import SpeculativeTranslator

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "costs"
PAGE = HERE / "costs.md"
# (folder of a pair, its strategy, source language)
PAIRS = (("data-bin/demo_ende", "gad", "en"), ("data-bin/demo_edit", "iad", "src"))
FORMATS = ("fp32", "int8", "int7")
SIZES = (*range(11), 15, 19, 23)
ALLOWED = 0.15
PROJECTED = 12  # entries of a lone row whose logits are computed together (verify.cpp)
# Of the rows beyond it, in the page.
NOTES = """\
Rows beyond it, and why:

- *demo_ende, fp32* on the Zen 4: its 12 MB of weights and the drafter's lie in a third-level cache
  that the programs of the other core used too (a load of 8). What they do decides: in a run five
  minutes before, the largest error with AVX-512 was 15% for passes and 13% for drafts, with AVX2 18
  and 17%. The rows of 6 MB and less hold in both runs.
- *demo_edit* of one token in int8 with AVX2, 17%: 7 us of a pass of 43.
- Emerald Rapids: predicted by an earlier model, which took a draft's last layer for all tokens that
  are new to the drafter, its chain for one product of all places, and reading for nearly free
  beside computing; measured as the fastest tenth of all iterations of a size.
"""
Times = dict[int, float]
# Microseconds by tokens, and by what else the work depends on: of a pass how many groups of entries
# are projected, of a draft how many tokens are new to the drafter.
Samples = dict[int, dict[int, list[float]]]


def measured(pair: tuple[str, str, str], number_format: str, given: dict[str, Any]) -> list[Times]:
    """Microseconds of passes by their tokens, and of drafts by theirs."""
    folder, strategy, language = pair
    text = next(pathlib.Path(folder).glob(f"heldout.{language}")).read_text(encoding="utf-8")
    lines = text.splitlines()[:12]
    passes: Samples = collections.defaultdict(lambda: collections.defaultdict(list))
    drafts: Samples = collections.defaultdict(lambda: collections.defaultdict(list))
    for size in SIZES if strategy == "iad" else SIZES[:11]:
        flags = {"strategy": "greedy", "verifier_dtype": number_format, **given}
        if size:
            flags.update(strategy=strategy, block_size=size, draft_budget=0)
        translator = SpeculativeTranslator.from_pretrained(folder, split=False, **flags)
        for _ in range(5):
            for line in lines:
                fresh = 0
                for each in translator.translate(line, return_trace=True).trace.iterations:
                    drafted = len(each.draft)
                    projected = each.accepted // PROJECTED
                    passes[drafted + 1][projected].append(1000 * each.verifier_ms)
                    if size and drafted == size:
                        drafts[size][fresh].append(1000 * each.drafter_ms)
                    fresh = each.accepted + 1
    return [
        {n: _mean(each) for n, each in sorted(samples.items()) if n - (samples is passes) in SIZES}
        for samples in (passes, drafts)
    ]


def _mean(samples: dict[int, list[float]]) -> float:
    """Of what the fastest tenth of each kind takes."""
    kinds = [(len(each), sorted(each)[len(each) // 10]) for each in samples.values()]
    return sum(count * low for count, low in kinds) / sum(count for count, _ in kinds)


def compared(pair: tuple[str, str, str], number_format: str, table: str) -> dict[str, Any]:
    """{row: {tokens: [predicted, measured]}} of a pair in a format."""
    folder, strategy, _ = pair
    given = {"cost_table": table}
    translator = SpeculativeTranslator.from_pretrained(
        folder, strategy=strategy, verifier_dtype=number_format, **given
    )
    translator.translate("one")
    generator = translator.generator
    parts = generator.parts()
    model = times(parts.verifier, generator.drafter, parts.drafter, table)
    passes, drafts = measured(pair, number_format, given)
    name = f"{pathlib.Path(folder).name}, {number_format}"
    rows = {f"{name}: pass": {n: [1e6 * model.verifying(n), each] for n, each in passes.items()}}
    if strategy == "gad":
        rows[f"{name}: draft"] = {
            n: [1e6 * model.drafting(1, n), each] for n, each in drafts.items()
        }
    return rows


def error(pairs: dict[str, list[float]]) -> float:
    """The largest of a row, as a share of what was measured."""
    return max(abs(model / us - 1) for model, us in pairs.values())


def page() -> str:
    """The page, from all files."""
    text = [
        "# Predicted and measured times of passes and drafts",
        "",
        "The cost model's microseconds ([native](../docs/native.md)) and those of decoding, one "
        "sentence at a time, one thread.\n`python benchmarks/costs.py NAME [--isa avx2]` adds a "
        f"processor. The largest error of a row is to be\nat most {ALLOWED:.0%}.",
        "",
        NOTES.rstrip(),
    ]
    for file in sorted(FOLDER.glob("*.json")):
        results = json.loads(file.read_text(encoding="utf-8"))
        processor = results["figures"]["processor"]
        text += ["", f"## {file.stem}", "", f"{processor}, {results['variant']}."]
        for name, cells in results["rows"].items():
            text += [
                "",
                f"| {name} of tokens | " + " | ".join(cells) + " | largest error |",
                "|---|" + "--:|" * (len(cells) + 1),
                "| predicted | " + " | ".join(f"{a:.0f}" for a, _ in cells.values()) + " | |",
                "| measured | "
                + " | ".join(f"{b:.0f}" for _, b in cells.values())
                + f" | {error(cells):.0%} |",
            ]
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="of the processor")
    parser.add_argument("--isa", help="as of specdec-bench")
    args = parser.parse_args()
    torch.set_num_threads(1)
    library = load()
    assert library is not None, "needs the native engine"
    figures = measure(library)
    FOLDER.mkdir(exist_ok=True)
    rows: dict[str, Any] = {}
    with tempfile.NamedTemporaryFile(suffix=".json") as table:
        save(figures, table.name)
        for pair in PAIRS:
            for number_format in FORMATS:
                rows.update(compared(pair, number_format, table.name))
    results = {"variant": library.variant, "figures": figures._asdict(), "rows": rows}
    name = args.name + (f"-{args.isa}" if args.isa else "")
    text = json.dumps(results, indent=1) + "\n"
    (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE} written\n")


if __name__ == "__main__":
    main()
