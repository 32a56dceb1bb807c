"""The error correction benchmarks: corpora that the user brings, synthetic errors, M2 scores.

Each name of sources.tsv is a setting that holds a path: an .m2 file, or the prefix of a .src and a
.tgt file, tokenised; CLEAN is plain text. With SUBWORDS=gpt2 there are GPT-2's subwords and BART's
dictionary.
"""

import os
import pathlib
from typing import Any, Dict, List, NamedTuple

from benchmark import Benchmark, stand_in
from launch import Devices
from prepare import SPLITS, apply_codes, binarise, prepare, sample
from recipe import REPO, StepError, read_table
from step import Step

PAIR = ("src", "tgt")
SPELLINGS = REPO / "scripts" / "gec_conll14" / "smoke_sets.tsv"


class Source(NamedTuple):
    """A row of sources.tsv: a corpus that the user brings."""

    name: str
    url: str
    checksum: str
    licence: str


class Corpora:
    """Where the user's corpora lie; in the smoke profile a sample stands for all of them."""

    def __init__(self, step: Step, bench: Benchmark) -> None:
        self._step, self._sample = step, bench.home / "sample"
        self._smoke = bench.smoke
        self._bytes = bench.home / "bytes"
        self._paths: Dict[str, str] = {}
        if bench.smoke:
            self._make_sample()

    def _make_sample(self) -> None:
        step = self._step
        odd = "; warning: it is English" if step["recipe"] == "gec_nlpcc18" else ""
        sample(step, self._sample, dict(zip(PAIR, PAIR)), "demo_edit", odd)
        self._paths = {"CLEAN": f"{self._sample}/train.tgt"}
        if step["SUBWORDS"] == "gpt2":
            self._paths.update(BART=str(self._bytes), GPT2=str(self._bytes))
            step.once(self._bytes / "dict.txt", "gec_corpus.write_bytes", self._bytes)

    def path(self, name: str) -> str:
        """The path that a setting holds.

        Raises:
            StepError: it holds none, or there is no such file; with where the corpus comes from.
        """
        path = self._paths.get(name) or self._step[name]
        if not path and self._step.dry:
            return f"${name}"
        if not path:
            sources = {row.name: row for row in read_table(self._step.path("SOURCES"), Source)}
            where = f": {sources[name].licence}; see {sources[name].url}" if name in sources else ""
            raise StepError(f"{name}: set it to the path of your copy{where}")
        if not self._step.made(pathlib.Path(path)) and not os.path.exists(f"{path}.src"):
            raise StepError(f"{name}: neither {path} nor {path}.src exists")
        return path

    def stage(self, name: str) -> List[str]:
        """The corpora of a stage: train_data, finetune_data, valid_data, test_data."""
        names = self._step.settings.words(name)
        if self._smoke:
            part = {"valid_data": "valid", "test_data": "test"}.get(name, "train")
            return [f"{self._sample}/{part}"] if names else []
        return [self.path(one) for one in names]


def files_of(paths: List[str]) -> List[str]:
    """What lies behind .m2 files and prefixes, for the record."""
    found = [[path] if os.path.isfile(path) else [f"{path}.src", f"{path}.tgt"] for path in paths]
    return sorted({path for files in found for path in files})


def gather(step: Step, prefix: pathlib.Path, inputs: List[str], **more: Any) -> None:
    """``prefix.tok.src`` and ``.tgt`` out of corpora."""
    step.make(prefix.parent)
    characters = bool(step["characters"])
    step.call("gec_corpus.write", f"{prefix}.tok", inputs, characters=characters, **more)


def gpt2_files(corpora: Corpora) -> List[str]:
    """GPT-2's subwords."""
    return [f"{corpora.path('GPT2')}/{name}" for name in ("encoder.json", "vocab.bpe")]


def subwords(step: Step, bench: Benchmark, corpora: Corpora, prefix: pathlib.Path) -> None:
    """``prefix.bpe.src`` and ``.tgt`` out of ``prefix.tok.*``."""
    for side in PAIR:
        tokens, out = (pathlib.Path(f"{prefix}.{kind}.{side}") for kind in ("tok", "bpe"))
        if step["SUBWORDS"] == "bpe":
            apply_codes(step, bench.home / "prepared" / "codes", tokens, out)
        else:
            files = gpt2_files(corpora)
            workers = step.settings.number("THREADS")
            step.once(out, "gpt2_subwords.write", tokens, out, *files, workers=workers)


def binarise_more(
    step: Step, bench: Benchmark, corpora: Corpora, name: str, prefix: pathlib.Path
) -> pathlib.Path:
    """Another training text with the dictionary and the other splits of ``bench.bin``."""
    subwords(step, bench, corpora, prefix)
    folder, dicts = bench.corpus(name), (f"{bench.bin}/dict.{side}.txt" for side in PAIR)
    links = [path for part in ("valid.*", "test.*") for path in sorted(bench.bin.glob(part))]
    words = ["--srcdict", next(dicts), "--tgtdict", next(dicts)]
    log = pathlib.Path(f"{prefix}.preprocess.log")
    binarise(step, folder, PAIR, {"train": f"{prefix}.bpe"}, *words, log=log, links=links)
    return folder


def binarise_all(step: Step, bench: Benchmark, corpora: Corpora, folder: pathlib.Path) -> None:
    """``bench.bin`` out of the tokens in a folder."""
    if step["SUBWORDS"] == "bpe":
        prepare(step, folder, folder, bench.bin, PAIR, ["en", "en"], step["MERGES"])
        return
    for split in SPLITS:
        subwords(step, bench, corpora, folder / split)
    dictionary = f"{corpora.path('BART')}/dict.txt"
    prefixes = {split: folder / f"{split}.bpe" for split in SPLITS}
    words = ["--srcdict", dictionary, "--tgtdict", dictionary]
    binarise(step, bench.bin, PAIR, prefixes, *words, log=folder / "preprocess.log")


def prepare_step(step: Step) -> None:
    """An action: gather the corpora, cut them into subwords, binarise."""
    step.need("fairseq-preprocess", "subword-nmt")
    bench = Benchmark(step)
    corpora, folder = Corpora(step, bench), bench.home / "prepared"
    if step["SUBWORDS"] == "gpt2":
        for name in ("BART", "GPT2"):
            corpora.path(name)
    stages = ("train_data", "finetune_data", "valid_data", "test_data")
    train, finetune, valid, test = map(corpora.stage, stages)
    inputs = files_of([*train, *finetune, *valid, *test])
    record = bench.bin / "provenance.json"
    if step.finished(record, inputs):
        return
    gather(step, folder / "train", train)
    for split, paths in (("valid", valid), ("test", test)):
        gather(step, folder / split, paths, gold=bench.home / "gold" / f"{split}.m2")
    binarise_all(step, bench, corpora, folder)
    if finetune:
        gather(step, folder / "finetune", finetune)
        binarise_more(step, bench, corpora, "finetune", folder / "finetune")
    step.record(record, inputs, bench.bin, bench.home / "gold")


def noise_step(step: Step) -> None:
    """An action: synthetic errors in clean text, as a corpus.

    Processes share the work under torchrun or as the elements of a Slurm array, and whoever
    finishes last publishes.
    """
    step.need("fairseq-preprocess", "subword-nmt")
    bench = Benchmark(step)
    corpora, noise = Corpora(step, bench), bench.home / "noise"
    clean, record = corpora.path("CLEAN"), bench.corpus("synthetic") / "provenance.json"
    if step["SUBWORDS"] == "gpt2":
        corpora.path("GPT2")
    inputs = [clean, bench.bin / "dict.src.txt"]
    if step.finished(record, inputs):
        return
    devices, words = Devices(step), step.settings.words("NOISE_FLAGS")
    if bench.smoke and not words:  # so that no spell-checker is needed
        words = ["--confusion-sets", str(SPELLINGS)]
    devices.launch(
        "-m", "fairseq_specdec.noise.cli", clean, "--dest", noise, "--seed", step["SEED"],
        "--name", "synthetic.tok", *words, log=bench.home / "noise.log",
    )  # fmt: skip
    if not step.made(noise / "noise.json"):
        step.log(f"this share is done; the process that finishes last publishes {noise}")
        return
    if not devices.first:  # the pretraining reads what the first node makes of it
        devices.wait(record)
        return
    folder = step.make(bench.home / "noise_bpe")
    for side in PAIR:
        link = folder / f"synthetic.tok.{side}"
        step.once(link, "os.symlink", noise / link.name, link)
    binarise_more(step, bench, corpora, "synthetic", folder / "synthetic")
    step.record(record, inputs, bench.corpus("synthetic"))


def start_step(step: Step) -> None:
    """An action: the model "start", KEEP decoder layers and all else of BART.

    In the smoke profile it is cut out of a tiny stand-in.
    """
    bench = Benchmark(step)
    if not bench.chosen("start"):
        return
    output = bench.model("start")
    record, dictionary = output.parent / "provenance.json", bench.bin / "dict.src.txt"
    bart = pathlib.Path(Corpora(step, bench).path("BART")) / "model.pt"
    inputs = [dictionary] if bench.smoke else [dictionary, bart]
    if step.finished(record, inputs):
        return
    if bench.smoke:
        own = "model.decoder_layers=4"
        bart = stand_in(step, "start", output.parent, "gec_finetune_12_2", own)
    if step["NODE_RANK"] != "0":
        Devices(step).wait(record)
        return
    step.make(output.parent)
    step.run(
        step.python, "-m", "fairseq_specdec.training.select_layers", bart, output, "--keep",
        step["KEEP"], "--dict", dictionary, "--force",
        failure=f"BART: {bart.parent} cannot be used: see above",
    )  # fmt: skip
    step.record(record, inputs, output)


def score(step: Step, bench: Benchmark, outputs: List[pathlib.Path], json: pathlib.Path) -> None:
    """Score outputs: M2, and ERRANT where it is asked for."""
    files = gpt2_files(Corpora(step, bench)) if step["SUBWORDS"] == "gpt2" else []
    where = (step.recipe.folder / "systems.tsv", bench.home / "gold")
    step.call(
        "gec_scores.write_sets", outputs, json, *where, files, step["SEGMENTER"],
        bool(step["characters"]), metric=step["METRIC"], m2scorer=step["M2SCORER"],
    )  # fmt: skip
