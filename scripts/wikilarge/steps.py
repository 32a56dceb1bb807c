"""The simplification benchmark: a corpus that is tokenised, several references, SARI and BLEU."""

import pathlib

from benchmark import Family
from prepare import prepare, sample


class Simplification(Family):
    """The corpus with the references of its test set."""

    def make(self) -> list[pathlib.Path]:
        step, bench, folder = self.step, self.bench, self.step.make(self.folder)
        raw, reference = bench.home / "raw", folder / "reference.0"
        if bench.smoke:
            sample(step, raw, {"source": "src", "target": "tgt"}, "demo_edit", ", edits")
        elif step.lacks(reference):
            sources = (step.path("SOURCES"), bench.home / "downloads")
            step.call("fetch.fetch", *sources)
            step.call("parallel_text.write_tokenised", *sources, folder, bench.languages)
        prepare(step, raw, folder, bench.bin, bench.languages, ["en", "en"], step["MERGES"])
        step.once(reference, "shutil.copy", folder / "test.tok.target", reference)
        return sorted(folder.glob("reference.*"))

    def score(self, outputs: list[pathlib.Path], json: pathlib.Path) -> None:
        references = sorted(self.folder.glob("reference.*"))
        texts = (self.folder / "test.tok.source", references)
        self.step.call("wikilarge.scores.write", outputs, *texts, json)
