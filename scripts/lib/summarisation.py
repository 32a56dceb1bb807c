"""The summarisation benchmarks: their corpora, BART's subwords and weights, and ROUGE."""

import pathlib

from benchmark import Family, stand_in
from prepare import SPLITS, binarise, prepare, sample
from recipe import part
from recipe_file import sources
from step import Step

SIDES = ("source", "target")
SUBWORDS = ("encoder.json", "vocab.bpe", "dict.txt")  # GPT-2's files, and BART's dictionary


class Summarisation(Family):
    """Articles and summaries, and what the chosen models start from."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self._subwords = self.bench.home / "subwords"
        step.call("summary_scores.make_scorer")  # what lacks ends the recipe before the training

    def prepare(self) -> None:
        self.bench.chosen_models("")
        super().prepare()
        starts = [each.split for each in sources(self.step.recipe.file, "pretrained")]
        for row in self.step.recipe.models():
            for start in starts:
                if self.bench.chosen(row.name) and f"{{{start}}}" in row.overrides:
                    self._pretrained(start, row.config)

    def make(self) -> list[pathlib.Path]:
        raw = self._raw()
        if self.bench.smoke:
            languages, merges = ["en", "en"], self.step["SMOKE_MERGES"]
            prepare(self.step, raw, self.folder, self.bench.bin, SIDES, languages, merges)
        else:
            self._gpt2_subwords(raw)
        self.keep_test(raw)
        return []

    def _raw(self) -> pathlib.Path:
        """A folder of raw text, fetched if need be."""
        step = self.step
        raw = step.path("RAW") if step["RAW"] else self.bench.home / "raw"
        files = [raw / f"{split}.{side}" for split in SPLITS for side in SIDES]
        if not step["RAW"] and any(map(step.lacks, files)):
            if self.bench.smoke:
                sample(step, raw, dict(zip(SIDES, ("src", "tgt"))), "demo_edit")
            else:
                self.fetch("RAW", "summary_corpus.write", raw, step["recipe"])
        return raw

    def _gpt2_subwords(self, raw: pathlib.Path) -> None:
        """Binarise numbers of GPT-2's subwords with BART's dictionary."""
        step, home, recipe = self.step, self.bench.home, self.step.path("SOURCES")
        folder, subwords, downloads = step.make(self.folder), self._subwords, home / "downloads"
        step.make(subwords)
        step.call("fetch.fetch", recipe, downloads, "subwords")
        for source in sources(recipe):
            if source.split == "subwords":
                path = subwords / pathlib.Path(source.url).name
                step.call("shutil.copy", downloads / source.name, path)
        encoder, merges, dictionary = (subwords / name for name in SUBWORDS)
        for out in (folder / f"{split}.bpe.{side}" for split in SPLITS for side in SIDES):
            text, most = raw / out.name.replace(".bpe", ""), step.settings.number("MAX_SOURCE")
            threads = step.settings.number("THREADS")
            step.once(out, "gpt2_subwords.write", text, out, encoder, merges, most, threads)
        prefixes = {split: folder / f"{split}.bpe" for split in SPLITS}
        words = ["--srcdict", dictionary, "--tgtdict", dictionary]
        binarise(step, self.bench.bin, SIDES, prefixes, *words, log=folder / "preprocess.log")

    def _pretrained(self, name: str, config: str) -> None:
        """The model that others start from; in the smoke profile a tiny one of this YAML."""
        step, bench = self.step, self.bench
        dictionary, folder = bench.bin / "dict.source.txt", bench.model(name).parent
        step.commands = []
        recipe = step.recipe.file
        record, inputs = folder / "provenance.json", [part(recipe, "pretrained"), dictionary]
        if step.finished(record, inputs):
            return
        output, downloads = folder / "model.pt", bench.home / "downloads"
        if bench.smoke:
            path = stand_in(step, name, folder, config)
            step.call("pretrained.fit_file", path, dictionary, dictionary, output)
        else:
            step.call("fetch.fetch", recipe, downloads, name, section="pretrained")
            step.call("pretrained.fit_archive", recipe, name, downloads, dictionary, output)
        step.record(record, inputs, output)

    def score(self, outputs: list[pathlib.Path], json: pathlib.Path) -> None:
        subwords = [self._subwords / name for name in SUBWORDS[:2]]
        wanted = self.bench.home / "raw" / "test.target"
        gpt2 = [] if self.bench.smoke else subwords
        self.step.call("summary_scores.write", outputs, wanted, gpt2, json)
