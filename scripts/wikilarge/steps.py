"""The simplification benchmark: a corpus that is tokenised, several references, SARI and BLEU."""

import pathlib
from typing import Any

from benchmark import Family
from prepare import SPLITS, prepare, sample
from recipe import StepError, part


class Simplification(Family):
    """The corpus with the references of its test set."""

    def inputs(self) -> list[Any]:
        own = self.step["TOKENISED"]
        if own and not pathlib.Path(own, "reference.0").is_file():
            raise StepError(
                f"TOKENISED: no file {own}/reference.0; give "
                "{train,valid,test}.tok.{source,target} too"
            )
        return [part(self.step.path("SOURCES"), "sources"), *filter(None, [own])]

    def make(self) -> list[pathlib.Path]:
        step, bench, folder = self.step, self.bench, self.step.make(self.folder)
        raw, reference = bench.home / "raw", folder / "reference.0"
        if step["TOKENISED"]:
            self._copy(step.path("TOKENISED"))
        elif bench.smoke:
            sample(step, raw, {"source": "src", "target": "tgt"}, "demo_edit", ", edits")
        elif step.lacks(reference):
            self.fetch("TOKENISED", "parallel_text.write_tokenised", folder, bench.languages)
        prepare(step, raw, folder, bench.bin, bench.languages, ["en", "en"], step["MERGES"])
        step.once(reference, "shutil.copy", folder / "test.tok.target", reference)
        return sorted(folder.glob("reference.*"))

    def _copy(self, own: pathlib.Path) -> None:
        """Copy the user's corpus and references."""
        names = [f"{split}.tok.{side}" for split in SPLITS for side in ("source", "target")]
        for path in [*(own / name for name in names), *sorted(own.glob("reference.*"))]:
            if not path.is_file():
                raise StepError(f"TOKENISED: {own} lacks {path.name}")
            self.step.call("shutil.copy", path, self.folder)

    def score(self, outputs: list[pathlib.Path], json: pathlib.Path) -> None:
        references = sorted(self.folder.glob("reference.*"))
        texts = (self.folder / "test.tok.source", references)
        self.step.call("wikilarge.scores.write", outputs, *texts, json)
