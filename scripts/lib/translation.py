"""The translation benchmarks: their corpora and their scores."""

import pathlib
from typing import Any

from benchmark import Benchmark, Family
from prepare import SPLITS, prepare, sample
from step import Step


def sample_corpus(step: Step, bench: Benchmark, raw: pathlib.Path) -> None:
    """A small English-German corpus instead of the full one."""
    ends = ["de", "en"] if bench.languages == ["de", "en"] else ["en", "de"]
    other = bench.languages[1]
    odd = "" if other in ends else f"; warning: its German replaces {other}"
    sample(step, raw, dict(zip(bench.languages, ends)), "demo_ende", odd)


class Translation(Family):
    """Parallel text: fetched, cleaned, tokenised and binarised once for both directions; BLEU, and
    COMET where it is asked for."""

    def inputs(self) -> list[Any]:
        if not self.step["TOKENISED"]:
            return super().inputs()
        names = [f"{split}.bpe.{side}" for split in SPLITS for side in self.bench.languages]
        return [self.step.path("TOKENISED") / name for name in names]

    def make(self) -> list[pathlib.Path]:
        step, bench, folder = self.step, self.bench, self.folder
        raw = pathlib.Path(step["RAW"] or step["TOKENISED"] or bench.home / "raw")
        if step["TOKENISED"]:
            step.make(folder)
            for path in self.inputs():
                step.call("shutil.copy", path, folder)
        elif bench.smoke and not step["RAW"]:
            sample_corpus(step, bench, raw)
        elif not step["RAW"]:
            words = (bench.languages, step["diacritics"] == "kept")
            self.fetch("RAW or TOKENISED", "parallel_text.write", raw, *words)
        prepare(step, raw, folder, bench.bin, bench.languages, bench.languages, step["MERGES"])
        self.keep_test(raw)
        return []

    def score(self, outputs: list[pathlib.Path], json: pathlib.Path) -> None:
        bench, comet = self.bench, self.step["COMET"]
        raw = [bench.home / "raw" / f"test.{side}" for side in (bench.src, bench.tgt)]
        self.step.call("translation_scores.write", outputs, raw, bench.tgt, comet, json)
