"""The summarisation benchmarks: their corpora, BART's subwords and weights, and ROUGE."""

import pathlib
from typing import Any, List

from benchmark import Benchmark, fetched, keep_test, stand_in
from fetch import read_sources
from prepare import SPLITS, binarise, prepare, sample
from step import Step

SIDES = ("source", "target")
SUBWORDS = ("encoder.json", "vocab.bpe", "dict.txt")  # GPT-2's files, and BART's dictionary


def raw_corpus(step: Step, bench: Benchmark) -> pathlib.Path:
    """A folder of raw text, fetched if need be."""
    raw = step.path("RAW") if step["RAW"] else bench.home / "raw"
    files = [raw / f"{split}.{side}" for split in SPLITS for side in SIDES]
    if not step["RAW"] and any(map(step.lacks, files)):
        if bench.smoke:
            ends = SIDES if step["SAMPLE"] else ("src", "tgt")
            sample(step, raw, dict(zip(SIDES, ends)), "demo_edit")
        else:
            fetched(step, bench, "RAW", "summary_corpus.write", raw, step["recipe"])
    return raw


def gpt2_subwords(step: Step, bench: Benchmark, raw: pathlib.Path) -> None:
    """Binarise numbers of GPT-2's subwords with BART's dictionary."""
    folder, subwords = step.make(bench.home / "prepared"), step.make(bench.home / "subwords")
    downloads, sources = bench.home / "downloads", step.path("SOURCES")
    step.call("fetch.fetch", sources, downloads, "subwords")
    for source in read_sources(sources):
        if source.split == "subwords":
            step.call(
                "shutil.copy", downloads / source.name, subwords / pathlib.Path(source.url).name
            )
    encoder, merges, dictionary = (subwords / name for name in SUBWORDS)
    for out in (folder / f"{split}.bpe.{side}" for split in SPLITS for side in SIDES):
        text, most = raw / out.name.replace(".bpe", ""), step.settings.number("MAX_SOURCE")
        threads = step.settings.number("THREADS")
        step.once(out, "gpt2_subwords.write", text, out, encoder, merges, most, threads)
    prefixes = {split: folder / f"{split}.bpe" for split in SPLITS}
    words = ["--srcdict", dictionary, "--tgtdict", dictionary]
    binarise(step, bench.bin, SIDES, prefixes, *words, log=folder / "preprocess.log")


def need_rouge(step: Step) -> None:
    """An action: better to hear of it now than after the training."""
    step.call("summary_scores.make_scorer")


def prepare_step(step: Step) -> None:
    """An action: the corpus, and what the chosen models of models.tsv start from."""
    step.need("fairseq-preprocess", "subword-nmt")
    need_rouge(step)
    bench = Benchmark(step)
    bench.chosen_models("")
    prepare_corpus(step, bench)
    starts = [source.split for source in read_sources(pretrained_table(step))]
    for row in step.recipe.models():
        for start in starts:
            if bench.chosen(row.name) and f"{{{start}}}" in row.overrides:
                pretrained(step, bench, start, row.config)


def pretrained_table(step: Step) -> pathlib.Path:
    """What models of models.tsv start from: as sources.tsv."""
    return step.recipe.folder / "pretrained.tsv"


def prepare_corpus(step: Step, bench: Benchmark) -> None:
    """The binarised corpus, and the test set as raw text."""
    inputs: List[Any] = [step.path("SOURCES"), *filter(None, [step["RAW"]])]
    record = bench.bin / "provenance.json"
    if step.finished(record, inputs):
        return
    raw = raw_corpus(step, bench)
    if bench.smoke:
        folder = bench.home / "prepared"
        prepare(step, raw, folder, bench.bin, SIDES, ["en", "en"], step["SMOKE_MERGES"])
    else:
        gpt2_subwords(step, bench, raw)
    keep_test(step, bench, raw)
    step.record(record, inputs, bench.bin)


def pretrained(step: Step, bench: Benchmark, name: str, config: str) -> None:
    """The model that others start from; in the smoke profile a tiny one of this YAML."""
    dictionary, folder = bench.bin / "dict.source.txt", bench.model(name).parent
    step.commands = []
    record, inputs = folder / "provenance.json", [pretrained_table(step), dictionary]
    if step.finished(record, inputs):
        return
    output, downloads = folder / "model.pt", bench.home / "downloads"
    if bench.smoke:
        path = stand_in(step, name, folder, config)
        step.call("pretrained.fit_file", path, dictionary, dictionary, output)
    else:
        step.call("fetch.fetch", pretrained_table(step), downloads, name)
        archive = (pretrained_table(step), name, downloads)
        step.call("pretrained.fit_archive", *archive, dictionary, output)
    step.record(record, inputs, output)


def score(step: Step, bench: Benchmark, outputs: List[pathlib.Path], json: pathlib.Path) -> None:
    """Score outputs: ROUGE."""
    subwords = [bench.home / "subwords" / name for name in SUBWORDS[:2]]
    wanted = bench.home / "raw" / "test.target"
    step.call("summary_scores.write", outputs, wanted, [] if bench.smoke else subwords, json)
