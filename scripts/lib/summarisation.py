"""The summarisation benchmarks: their corpora, BART's subwords and weights, and ROUGE."""

import pathlib
import shutil
from typing import Any, List

from benchmark import Benchmark, stand_in
from prepare import SPLITS, binarise, fetch, prepare, split_sample
from step import Step

SIDES = ("source", "target")
SUBWORDS = ("encoder.json", "vocab.bpe", "dict.txt")  # GPT-2's files, and BART's dictionary


def rows_of(path: pathlib.Path, name: str, out: pathlib.Path) -> pathlib.Path:
    """Write those lines of a table that begin with a name."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(line for line in lines if line.startswith(name + "\t")), "utf-8")
    return out


def raw_corpus(step: Step, bench: Benchmark) -> pathlib.Path:
    """A folder of raw text, fetched if need be."""
    raw = step.path("RAW") if step["RAW"] else bench.home / "raw"
    files = [raw / f"{split}.{side}" for split in SPLITS for side in SIDES]
    if step["RAW"] or all(path.exists() for path in files):
        return raw
    sample = step["SAMPLE"]
    if not bench.smoke:
        downloads = bench.home / "downloads"
        fetch(step, step.path("SOURCES"), downloads, "RAW takes a copy of your own")
        failure = "the corpus cannot be read: see above"
        kind = step["recipe"]
        step.program("summary_corpus", kind, step["SOURCES"], downloads, raw, failure=failure)
        return raw
    step.log(f"a small sample in place of the corpus: SAMPLE={sample}")
    if sample == "python":
        step.program("summary_sample", raw, failure="the sample cannot be made: see above")
    else:
        for side in SIDES:
            split_sample(step, pathlib.Path(f"{sample}.{side}"), raw, side)
    return raw


def gpt2_subwords(step: Step, bench: Benchmark, raw: pathlib.Path) -> None:
    """Binarise numbers of GPT-2's subwords with BART's dictionary."""
    folder, subwords = bench.home / "prepared", bench.home / "subwords"
    folder.mkdir(parents=True, exist_ok=True)
    downloads = bench.home / "downloads"
    fetch(step, rows_of(step.path("SOURCES"), "subwords", subwords / "sources.tsv"), downloads)
    for name in SUBWORDS:
        (found,) = downloads.glob(f"*gpt2_bpe_{name}")
        shutil.copy(found, subwords / name)
    encoder, merges, dictionary = (subwords / name for name in SUBWORDS)
    for split in SPLITS:
        for side in SIDES:
            out = folder / f"{split}.bpe.{side}"
            if not out.exists():
                step.program(
                    "gpt2_subwords", raw / f"{split}.{side}", out, "--encoder-json", encoder,
                    "--vocab-bpe", merges, "--max-subwords", step["MAX_SOURCE"], "--workers",
                    step["THREADS"],
                )  # fmt: skip
    prefixes = {split: folder / f"{split}.bpe" for split in SPLITS}
    words = ["--srcdict", dictionary, "--tgtdict", dictionary]
    binarise(step, bench.bin, SIDES, prefixes, *words, log=folder / "preprocess.log")


def need_rouge(step: Step) -> None:
    """An action: better to hear of it now than after the training."""
    failure = "ROUGE cannot be computed: see above"
    step.program("summary_scores", "--check", failure=failure)


def prepare_step(step: Step) -> None:
    """An action: the corpus, and what the chosen models of models.tsv start from."""
    step.need("fairseq-preprocess", "subword-nmt")
    need_rouge(step)
    bench = Benchmark(step)
    bench.chosen_models("")
    prepare_corpus(step, bench)
    starts = {line.split("\t")[0] for line in pretrained_table(step).read_text().splitlines()}
    for row in step.recipe.models():
        for start in sorted(starts):
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
    raw, kept = raw_corpus(step, bench), bench.home / "raw"
    if bench.smoke:
        folder = bench.home / "prepared"
        prepare(step, raw, folder, bench.bin, SIDES, ["en", "en"], step["SMOKE_MERGES"])
    else:
        gpt2_subwords(step, bench, raw)
    kept.mkdir(exist_ok=True)
    if raw.resolve() != kept.resolve():
        for side in SIDES:
            shutil.copy(raw / f"test.{side}", kept)
    step.record(record, inputs, bench.bin)


def pretrained(step: Step, bench: Benchmark, name: str, config: str) -> None:
    """The model that others start from; in the smoke profile a tiny one of this YAML."""
    dictionary, folder = bench.bin / "dict.source.txt", bench.model(name).parent
    step.commands = []
    record, inputs = folder / "provenance.json", [pretrained_table(step), dictionary]
    if step.finished(record, inputs):
        return
    words: List[Any]
    if bench.smoke:
        path = stand_in(step, name, folder, config)
        words = ["--checkpoint", path, "--checkpoint-dict", dictionary]
    else:
        table = rows_of(pretrained_table(step), name, folder / "source.tsv")
        downloads = bench.home / "downloads"
        fetch(step, table, downloads)
        words = ["--archive", table, name, downloads]
    failure, output = f"{name} cannot be used: see above", folder / "model.pt"
    step.program("pretrained", *words, "--dict", dictionary, "--output", output, failure=failure)
    step.record(record, inputs, output)


def score(step: Step, bench: Benchmark) -> List[Any]:
    """The command that scores outputs: ROUGE."""
    subwords = [bench.home / "subwords" / name for name in SUBWORDS[:2]]
    gpt2 = [] if bench.smoke else ["--gpt2", *subwords]
    return ["summary_scores", "--raw", bench.home / "raw" / "test.target", *gpt2]
