"""The translation benchmarks: their corpora and their scores."""

import pathlib
from typing import Any, List

from benchmark import Benchmark, fetched, keep_test
from prepare import SPLITS, prepare, sample
from step import Step


def sample_corpus(step: Step, bench: Benchmark, raw: pathlib.Path) -> None:
    """A small English-German corpus in place of the full one."""
    ends = ["de", "en"] if bench.languages == ["de", "en"] else ["en", "de"]
    other = bench.languages[1]
    odd = "" if other in ends else f"; warning: its German stands in for {other}"
    sample(step, raw, dict(zip(bench.languages, ends)), "demo_ende", odd)


def raw_corpus(step: Step, bench: Benchmark) -> pathlib.Path:
    """A folder of raw text, fetched if need be."""
    raw = step.path("RAW") if step["RAW"] else bench.home / "raw"
    if bench.smoke and not step["RAW"]:
        sample_corpus(step, bench, raw)
    elif not step["RAW"]:
        words = (bench.languages, step["diacritics"] == "kept")
        fetched(step, bench, "RAW or TOKENISED", "parallel_text.write", raw, *words)
    return raw


def prepare_step(step: Step) -> None:
    """An action: fetch, clean, tokenise and binarise the corpus, once for both directions."""
    step.need("fairseq-preprocess", "subword-nmt")
    bench, tokenised = Benchmark(step), step["TOKENISED"]
    folder, record = bench.home / "prepared", bench.bin / "provenance.json"
    inputs: List[Any] = [step.path("SOURCES"), *filter(None, [step["RAW"]])]
    if tokenised:
        names = [f"{split}.bpe.{side}" for split in SPLITS for side in bench.languages]
        inputs = [pathlib.Path(tokenised) / name for name in names]
    if step.finished(record, inputs):
        return
    if tokenised:
        raw = pathlib.Path(step["RAW"] or tokenised)
        step.make(folder)
        for path in inputs:
            step.call("shutil.copy", path, folder)
    else:
        raw = raw_corpus(step, bench)
    prepare(step, raw, folder, bench.bin, bench.languages, bench.languages, step["MERGES"])
    keep_test(step, bench, raw)
    step.record(record, inputs, bench.bin)


def score(step: Step, bench: Benchmark, outputs: List[pathlib.Path], json: pathlib.Path) -> None:
    """Score outputs: BLEU, and COMET where it is asked for."""
    raw = [bench.home / "raw" / f"test.{side}" for side in (bench.src, bench.tgt)]
    step.call("translation_scores.write", outputs, raw, bench.tgt, step["COMET"], json)
