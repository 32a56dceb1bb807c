"""The simplification benchmark: a corpus that is tokenised, several references, SARI and BLEU."""

import pathlib
import shutil
from typing import Any, List

from benchmark import Benchmark
from prepare import SPLITS, fetch, prepare, split_sample
from recipe import REPO, StepError
from step import Step


def own_corpus(folder: pathlib.Path, own: pathlib.Path) -> None:
    """Copy the user's corpus and references."""
    names = [f"{split}.tok.{side}" for split in SPLITS for side in ("source", "target")]
    for path in [*(own / name for name in names), *sorted(own.glob("reference.*"))]:
        if not path.is_file():
            raise StepError(f"TOKENISED: {own} lacks {path.name}")
        shutil.copy(path, folder)


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
    folder.mkdir(parents=True, exist_ok=True)
    if own:
        own_corpus(folder, pathlib.Path(own))
    elif bench.smoke:
        sample = step["SAMPLE"] or REPO / "data-bin/demo_edit/heldout"
        step.log(f"a small sample, edits that do not simplify, in place of the corpus: {sample}")
        for end, side in (("src", "source"), ("tgt", "target")):
            split_sample(step, pathlib.Path(f"{sample}.{end}"), raw, side, 20)
    elif not (folder / "reference.0").exists():
        downloads = bench.home / "downloads"
        fetch(step, step.path("SOURCES"), downloads, "TOKENISED takes a copy of your own")
        failure = "the corpus cannot be read: see above"
        step.program("simplification_corpus", step["SOURCES"], downloads, folder, failure=failure)
    prepare(step, raw, folder, bench.bin, bench.languages, ["en", "en"], step["MERGES"])
    if not (folder / "reference.0").exists():
        shutil.copy(folder / "test.tok.target", folder / "reference.0")
    step.record(record, inputs, bench.bin, *sorted(folder.glob("reference.*")))


def score(step: Step, bench: Benchmark) -> List[Any]:
    """The command that scores outputs: SARI and BLEU."""
    folder = bench.home / "prepared"
    references = [word for path in sorted(folder.glob("reference.*"))
                  for word in ("--reference", path)]  # fmt: skip
    return ["simplification_scores", "--source", folder / "test.tok.source", *references]
