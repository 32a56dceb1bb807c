"""``python -m fairseq_specdec.bench.quickstart``: the demo pairs, every strategy, one table.

Decodes the held-out sentences of ``data-bin/demo_ende`` (English-German) and
``data-bin/demo_edit`` (English with errors, corrected) one at a time with stock fairseq and with
this project's strategies, interleaved, and prints what each gives and costs.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import shlex
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import sacrebleu
import torch
from sacremoses import MosesDetokenizer

from fairseq_specdec.engine.backend import quickest_format
from fairseq_specdec.engine.eager.linear import computes_in_bf16
from fairseq_specdec.engine.number_formats import NUMBER_FORMATS
from fairseq_specdec.io.atomic import write_json
from fairseq_specdec.io.flag_values import AT_LEAST_1, InRange

from . import flags, machine, session, tables
from .run import Bench
from .timing import System
from .workload import BenchError, refuse

SAMPLES = 3  # sentences shown


class Pair(NamedTuple):
    """A demo pair: its folder, its languages, that of its outputs, and the systems that decode it,
    in which ``{drafter}`` stands for the drafter's flags."""

    folder: str
    source: str
    target: str
    language: str
    title: str
    quality: str
    systems: Tuple[str, ...]


PAIRS = {
    "ende": Pair(
        "demo_ende", "en", "de", "de", "English-German", "BLEU",
        (
            "greedy: --strategy greedy",
            "iad: --strategy iad",
            "gad: --strategy gad {drafter}",
            "gad++: --strategy gad++ --top-beta 3 --tau 1.0 {drafter}",
        ),
    ),
    "edit": Pair(
        "demo_edit", "src", "tgt", "en", "English with errors, corrected", "exact %",
        (
            "greedy: --strategy greedy",
            "iad: --strategy iad",
            "iad --realign: --strategy iad --realign",
        ),
    ),
}  # fmt: skip


def command_line(pair: Pair, options: argparse.Namespace) -> List[str]:
    """What ``specdec-bench`` is asked for.

    Raises:
        BenchError: the pair is not there.
    """
    verifier, drafter = (
        os.path.join(pair.folder, f"{name}.pt") for name in ("verifier", "drafter")
    )
    for path in (os.path.join(pair.folder, f"dict.{pair.source}.txt"), verifier):
        if not os.path.isfile(path):
            raise BenchError(
                f"{pair.folder}: no {os.path.basename(path)}; fetch the whole repository, or make "
                "the pair with scripts/run demo"
            )
    words = [pair.folder, "--path", verifier, "-s", pair.source, "-t", pair.target, "--cpu"]
    words += ["--batch-size", str(options.batch_size), "--threads", str(torch.get_num_threads())]
    words += ["--limit", str(options.limit)] if options.limit is not None else []
    flags = f"--drafter-path {shlex.quote(drafter)} --drafter-dtype {options.drafter_dtype}"
    return words + [word for s in pair.systems for word in ("--system", s.format(drafter=flags))]


def heldout(pair: Pair, language: str) -> List[str]:
    """The held-out sentences of a language."""
    with open(os.path.join(pair.folder, f"heldout.{language}"), encoding="utf-8") as lines:
        return [line.rstrip("\n") for line in lines]


def texts(pair: Pair, system: System, dictionary: Any) -> Dict[int, str]:
    """What a system said of each sentence, as text to read."""
    detokeniser = MosesDetokenizer(lang=pair.language)
    found = {}
    for number, tokens in sorted(system.tokens.items()):
        words = dictionary.string(torch.tensor(tokens), "subword_nmt").split()
        found[number] = detokeniser.detokenize(words).replace(" @-@ ", "-")
    return found


def quality(pair: Pair, said: Dict[int, str]) -> float:
    """BLEU of a system's texts, or the share of exact corrections."""
    references, outputs = heldout(pair, pair.target), list(said.values())
    wanted = [references[number] for number in said]
    if pair.quality == "BLEU":
        return float(sacrebleu.corpus_bleu(outputs, [wanted]).score)
    same = sum(" ".join(a.split()) == " ".join(b.split()) for a, b in zip(outputs, wanted))
    return 100.0 * same / len(wanted)


def columns(pair: Pair) -> List[tables.Column]:
    """Of the table."""
    return [
        tables.SYSTEM,
        tables.figure(pair.quality, "quality", "{:.2f}"),
        tables.figure("identical to beam 1", "identical_percent", "{:.1f}%"),
        tables.figure("Tok.", "tok", "{:.2f}"),
        tables.figure("Iter.", "iter", "{:.2f}"),
        tables.figure("ms a sentence", "ms_mean", "{:.1f}"),
        tables.figure("ms an iteration", "ms_per_iteration", "{:.2f}"),
        tables.figure("speed vs beam 5", "speed_beam5", "{:.2f}x"),
        tables.figure("speed vs beam 1", "speed_beam1", "{:.2f}x"),
    ]


def measure(pair: Pair, options: argparse.Namespace) -> Dict[str, Any]:
    """Run one pair and print its table.

    Returns:
        what ``specdec-bench --json`` writes, its rows with ``quality`` and ``ms_per_iteration``.

    Raises:
        BenchError: the pair is not there, or a flag cannot be honoured.
    """
    pair = pair._replace(folder=os.path.join(options.data_bin, pair.folder))
    bench = Bench(session.read(command_line(pair, options)))
    bench.measure_size(options.batch_size)
    dictionary = bench.workload.task.target_dictionary
    rows = bench.results["runs"][0]["rows"]
    said = [texts(pair, system, dictionary) for system in bench.systems]
    for row, system, mine in zip(rows, bench.systems, said):
        row["quality"] = quality(pair, mine)
        row["ms_per_iteration"] = 1000 * sum(system.seconds) / system.steps
    count = len(bench.workload.order)
    print(f"\n{pair.title}: {count} held-out sentences, batch {options.batch_size}\n")
    print(tables.markdown(columns(pair), rows), flush=True)
    sources = heldout(pair, pair.source)
    last = max(i for i, row in enumerate(rows) if row["identical_percent"] == 100)
    print(f"\nThe first sentences, by {rows[last]['system']}:\n")
    for number, text in itertools.islice(said[last].items(), SAMPLES):
        print(f"  {sources[number]}\n  -> {text}\n", flush=True)
    return bench.results


FLAGS: flags.Flags = {
    "--data-bin": dict(
        default="data-bin", help="folder that holds the demo pairs (default: %(default)s)"
    ),
    "--limit": dict(
        action=InRange, values=AT_LEAST_1,
        help="decode about so many sentences of each pair, %(values)s (default: all)",
    ),
    "--batch-size": dict(
        action=InRange, values=AT_LEAST_1, default=1,
        help="sentences at a time, %(values)s (default: 1)",
    ),
    "--drafter-dtype": dict(
        default="auto", choices=("auto", "same", *NUMBER_FORMATS),
        help="number format of the drafter, of gad++ too (default: the quickest here)",
    ),
    "--pairs": dict(default="ende,edit", help="which pairs, by commas (default: %(default)s)"),
    "--json": dict(metavar="FILE", help="also write all figures here (default: do not)"),
}  # fmt: skip


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[1])
    flags.add(parser, FLAGS)
    return parser


def quickest_drafts() -> str:
    """The number format in which this machine drafts fastest."""
    if quickest_format("auto", []) == torch.int8:
        return "int8"
    return "bf16" if computes_in_bf16() else "same"


def main(arguments: Optional[List[str]] = None) -> None:
    """Entry point; ends with a message where a demo pair is missing."""
    options = get_parser().parse_args(arguments)
    logging.basicConfig(format="[quickstart] %(message)s", level=logging.WARNING)
    logging.getLogger("fairseq_specdec.bench").setLevel(logging.INFO)
    if options.drafter_dtype == "auto":
        options.drafter_dtype = quickest_drafts()
    names = options.pairs.split(",")
    try:
        refuse({f"--pairs: no pair {n!r}; choose from ende, edit": n not in PAIRS for n in names})
        results = [measure(PAIRS[name], options) for name in names]
    except BenchError as error:
        raise SystemExit(str(error)) from error
    facts = results[0]["provenance"]
    for line in tables.without_engine(facts):
        print(f"\n{line}")
    print(f"\n{machine.line(facts)}; drafter_dtype {options.drafter_dtype}")
    if options.json:
        write_json(options.json, dict(zip(names, results)), make_folder=True)


if __name__ == "__main__":
    main()
