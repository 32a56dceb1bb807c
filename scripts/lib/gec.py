"""The error correction benchmarks: corpora that the user brings, synthetic errors, M2 scores.

Each source of the recipe is a setting that holds a path: an .m2 file, or the prefix of a .src and a
.tgt file, tokenised; CLEAN is plain text. With SUBWORDS=gpt2 there are GPT-2's subwords and BART's
dictionary.
"""

import os
import pathlib
from typing import Any

from benchmark import Benchmark, Family, stand_in
from prepare import SPLITS, apply_codes, binarise, prepare, sample
from recipe import LIB, REPO, StepError
from recipe_file import sources
from step import Step

PAIR = ("src", "tgt")
SPELLINGS = REPO / "scripts" / "gec_conll14" / "smoke_sets.tsv"


class Corrections(Family):
    """Corpora that lie where the user's settings name them; in the smoke profile a sample
    replaces all of them. Scores: M2."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self._sample = self.bench.home / "sample"

    def path(self, name: str) -> str:
        """The path that a setting holds."""
        sampled = self.bench.smoke and name == "CLEAN"
        path = f"{self._sample}/train.tgt" if sampled else self.step[name]
        if not path and self.step.dry:
            return f"${name}"
        if not path:
            named = {each.split: each for each in sources(self.step.path("SOURCES"))}
            where = f": {named[name].licence}; see {named[name].url}" if name in named else ""
            raise StepError(f"{name}: set it to the path of your copy{where}")
        if not self.step.made(pathlib.Path(path)) and not os.path.exists(f"{path}.src"):
            raise StepError(f"{name}: neither {path} nor {path}.src exists")
        return path

    def stage(self, name: str) -> list[str]:
        """The corpora of a stage: train_data, finetune_data, valid_data, test_data."""
        names = self.step.settings.words(name)
        if self.bench.smoke:
            part = {"valid_data": "valid", "test_data": "test"}.get(name, "train")
            return [f"{self._sample}/{part}"] if names else []
        return [self.path(one) for one in names]

    def inputs(self) -> list[Any]:
        if self.bench.smoke:
            odd = "; warning: it is English" if self.step["recipe"] == "gec_nlpcc18" else ""
            sample(self.step, self._sample, dict(zip(PAIR, PAIR)), "demo_edit", odd)
        for name in ("BART", "GPT2") if self.step["SUBWORDS"] == "gpt2" else ():
            self.path(name)
        stages = ("train_data", "finetune_data", "valid_data", "test_data")
        return files_of([path for name in stages for path in self.stage(name)])

    def make(self) -> list[pathlib.Path]:
        gold = self.bench.home / "gold"
        self._gather("train", self.stage("train_data"))
        for split in ("valid", "test"):
            self._gather(split, self.stage(f"{split}_data"), gold=gold / f"{split}.m2")
        self._binarise()
        if self.stage("finetune_data"):
            self._gather("finetune", self.stage("finetune_data"))
            self.binarise_more("finetune", self.folder / "finetune")
        return [gold]

    def _gather(self, name: str, inputs: list[str], **more: Any) -> None:
        """``NAME.tok.src`` and ``.tgt`` out of corpora."""
        prefix = f"{self.step.make(self.folder) / name}.tok"
        characters = bool(self.step["characters"])
        self.step.call("gec_corpus.write", prefix, inputs, characters=characters, **more)

    def _gpt2_files(self) -> list[str]:
        """GPT-2's subwords."""
        return [f"{self.path('GPT2')}/{name}" for name in ("encoder.json", "vocab.bpe")]

    def _subwords(self, prefix: pathlib.Path) -> None:
        """``prefix.bpe.src`` and ``.tgt`` out of ``prefix.tok.*``."""
        for side in PAIR:
            tokens, out = (pathlib.Path(f"{prefix}.{kind}.{side}") for kind in ("tok", "bpe"))
            if self.step["SUBWORDS"] == "bpe":
                apply_codes(self.step, self.folder / "codes", tokens, out)
            else:
                files, workers = self._gpt2_files(), self.step.settings.number("THREADS")
                self.step.once(out, "gpt2_subwords.write", tokens, out, *files, workers=workers)

    def _binarise(self) -> None:
        """``bench.bin`` out of the tokens."""
        step, folder, bin_ = self.step, self.folder, self.bench.bin
        if step["SUBWORDS"] == "bpe":
            prepare(step, folder, folder, bin_, PAIR, ["en", "en"], step["MERGES"])
            return
        for split in SPLITS:
            self._subwords(folder / split)
        dictionary = f"{self.path('BART')}/dict.txt"
        prefixes = {split: folder / f"{split}.bpe" for split in SPLITS}
        words = ["--srcdict", dictionary, "--tgtdict", dictionary]
        binarise(step, bin_, PAIR, prefixes, *words, log=folder / "preprocess.log")

    def binarise_more(self, name: str, prefix: pathlib.Path) -> None:
        """Another training text with the dictionary and the other splits of ``bench.bin``."""
        self._subwords(prefix)
        source, target = (self.bench.bin / f"dict.{side}.txt" for side in PAIR)
        parts = ("valid.*", "test.*")
        links = [path for part in parts for path in sorted(self.bench.bin.glob(part))]
        words = ["--srcdict", source, "--tgtdict", target]
        files = {"log": pathlib.Path(f"{prefix}.preprocess.log"), "links": links}
        corpus = self.bench.corpus(name)
        binarise(self.step, corpus, PAIR, {"train": f"{prefix}.bpe"}, *words, **files)

    def score(self, outputs: list[pathlib.Path], json: pathlib.Path) -> None:
        step = self.step
        files = self._gpt2_files() if step["SUBWORDS"] == "gpt2" else []
        where = (step.recipe.file, self.bench.home / "gold")
        more = (files, step["SEGMENTER"], bool(step["characters"]))
        step.call("gec_scores.write_sets", outputs, json, *where, *more)


def files_of(paths: list[str]) -> list[str]:
    """What lies behind .m2 files and prefixes, for the record."""
    groups = [[path] if os.path.isfile(path) else [f"{path}.src", f"{path}.tgt"] for path in paths]
    return sorted({path for files in groups for path in files})


def noise_step(step: Step) -> None:
    """An action: synthetic errors in clean text, as a corpus, where a model is trained on it."""
    if not any(row.corpus == "synthetic" for row in step.recipe.models()):
        return
    step.need("fairseq-preprocess", "subword-nmt")
    corpora = Corrections(step)
    bench, prefix = corpora.bench, corpora.bench.home / "noise" / "synthetic"
    clean, record = corpora.path("CLEAN"), bench.corpus("synthetic") / "provenance.json"
    if step["SUBWORDS"] == "gpt2":
        corpora.path("GPT2")
    inputs = [clean, bench.bin / "dict.src.txt"]
    if step.finished(record, inputs):
        return
    words = step.settings.words("NOISE_FLAGS")
    if bench.smoke and not words:  # so that no spell-checker is needed
        words = ["--confusion-sets", str(SPELLINGS)]
    log = bench.home / "noise.log"
    step.run(
        step.python, LIB / "noise.py", clean, "--dest", f"{prefix}.tok", "--seed", step["SEED"],
        "--workers", step["THREADS"], *words, log=log,
    )  # fmt: skip
    corpora.binarise_more("synthetic", prefix)
    step.record(record, inputs, bench.corpus("synthetic"))


def start_step(step: Step) -> None:
    """An action: the model "start", KEEP decoder layers and all else of BART.

    In the smoke profile it is cut out of a tiny stand-in.
    """
    bench = Benchmark(step)
    if not bench.chosen_models("start"):
        return
    output = bench.model("start")
    record, wanted = output.parent / "provenance.json", bench.bin / "dict.src.txt"
    names = () if bench.smoke else ("model.pt", "dict.txt")
    bart = [pathlib.Path(Corrections(step).path("BART"), name) for name in names]
    inputs = [wanted, *bart]
    if step.finished(record, inputs):
        return
    own = "model.decoder_layers=4"
    files = bart or [stand_in(step, "start", output.parent, "gec_finetune_12_2", own), wanted]
    with step.remedy(f"BART: {files[0]} cannot be used"):
        step.call("pretrained.fit_file", *files, wanted, output, step.settings.number("KEEP"))
    step.record(record, inputs, output)
