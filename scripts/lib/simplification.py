"""The simplification benchmark: a corpus that is tokenised, several references, SARI and BLEU."""

import pathlib
from typing import Any, List

from benchmark import Benchmark, fetched
from prepare import SPLITS, prepare, sample
from recipe import StepError
from step import Step


def own_corpus(step: Step, folder: pathlib.Path, own: pathlib.Path) -> None:
    """Copy the user's corpus and references."""
    names = [f"{split}.tok.{side}" for split in SPLITS for side in ("source", "target")]
    for path in [*(own / name for name in names), *sorted(own.glob("reference.*"))]:
        if not path.is_file():
            raise StepError(f"TOKENISED: {own} lacks {path.name}")
        step.call("shutil.copy", path, folder)


def prepare_step(step: Step) -> None:
    """An action: fetch, clean, learn subwords, binarise; the test set and its references."""
    step.need("fairseq-preprocess", "subword-nmt")
    bench, own = Benchmark(step), step["TOKENISED"]
    folder, raw = bench.home / "prepared", bench.home / "raw"
    inputs: List[Any] = [step.path("SOURCES")]
    if own:
        if not pathlib.Path(own, "reference.0").is_file():
            raise StepError(
                f"TOKENISED: no file {own}/reference.0; give "
                "{train,valid,test}.tok.{source,target} too"
            )
        inputs.append(own)
    record = bench.bin / "provenance.json"
    if step.finished(record, inputs):
        return
    step.make(folder)
    if own:
        own_corpus(step, folder, pathlib.Path(own))
    elif bench.smoke:
        sample(step, raw, {"source": "src", "target": "tgt"}, "demo_edit", ", edits")
    elif step.lacks(folder / "reference.0"):
        writer = "parallel_text.write_tokenised"
        fetched(step, bench, "TOKENISED", writer, folder, bench.languages)
    prepare(step, raw, folder, bench.bin, bench.languages, ["en", "en"], step["MERGES"])
    reference = folder / "reference.0"
    step.once(reference, "shutil.copy", folder / "test.tok.target", reference)
    step.record(record, inputs, bench.bin, *sorted(folder.glob("reference.*")))


def score(step: Step, bench: Benchmark, outputs: List[pathlib.Path], json: pathlib.Path) -> None:
    """Score outputs: SARI and BLEU."""
    folder = bench.home / "prepared"
    texts = (folder / "test.tok.source", sorted(folder.glob("reference.*")))
    step.call("simplification_scores.write", outputs, *texts, json)
