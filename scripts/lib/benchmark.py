"""The benchmarks: where their files lie, and the training of the models that they declare."""

import pathlib
import re
from typing import Any

import models
import recipe_config
from launch import Devices
from models import corpus_files, mend
from recipe import LIB, Part, StepError, part
from recipe_file import Model
from step import USER_DIR, Step, find

from fairseq_specdec.io.atomic import write_text


class Benchmark:
    """A benchmark's folders, in one direction.

    Attributes:
        languages: suffixes of the corpus, in the order of its binarised files.
        src, tgt: those of the direction.
        home: folder of all that is made.
        bin: the corpus, binarised.
        out: folder of what belongs to the direction.
        distilled: the corpus with the teacher's own output.
        smoke: whether it only shows that every step runs.
    """

    def __init__(self, step: Step) -> None:
        self.languages = step.settings.words("languages")
        self.src, self.tgt = step["DIRECTION"].split("-")
        self.home = step.path("home")
        self.bin = self.home / "bin"
        self.out = self.home / step["DIRECTION"]
        self.distilled = self.out / "distilled"
        self.smoke = step["PROFILE"] == "smoke"
        self._step = step

    def inputs(self, corpus: pathlib.Path) -> list[pathlib.Path]:
        """What training reads of a corpus."""
        dictionary, *_ = corpus_files(corpus, self.src, self.tgt)
        return [dictionary, *corpus_files(corpus, *self.languages)[1:]]

    def corpus(self, name: str) -> pathlib.Path:
        """A corpus that a model names: raw, distilled, or another of this benchmark."""
        return {"raw": self.bin, "distilled": self.distilled}.get(name, self.home / f"bin_{name}")

    def test_file(self, split: str) -> pathlib.Path:
        """The binarised sources of a split."""
        return self.bin / f"{split}.{'-'.join(self.languages)}.{self.src}.bin"

    def model(self, name: str) -> pathlib.Path:
        return self.out / "models" / name / "model.pt"

    def chosen(self, name: str) -> bool:
        return self._step["MODELS"] == "all" or name in self._step.settings.words("MODELS")

    def chosen_models(self, stage: str) -> list[Model]:
        """The chosen models that a step makes."""
        models = self._step.recipe.models()
        names = [model.name for model in models]
        for name in self._step.settings.words("MODELS"):
            if name not in ("all", *names):
                file = self._step.recipe.file
                raise StepError(f"MODELS: {name} is no model of {file}")
        return [model for model in models if model.step == stage and self.chosen(model.name)]


class Family:
    """A family of corpora: how one is prepared, and how outputs are scored. ``folder``: of what is
    made between the raw text and ``bench.bin``."""

    def __init__(self, step: Step) -> None:
        self.step, self.bench = step, Benchmark(step)
        self.folder = self.bench.home / "prepared"

    def inputs(self) -> list[Any]:
        """What the corpus is made of, for the record."""
        raw = self.step.settings.get("RAW")
        return [part(self.step.path("SOURCES"), "sources"), *([raw] if raw else [])]

    def make(self) -> list[pathlib.Path]:
        """Make ``bench.bin``; returns what else was made."""
        raise NotImplementedError

    def score(self, outputs: list[pathlib.Path], json: pathlib.Path) -> None:
        """Score outputs called SET.SYSTEM.out."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Make ``bench.bin`` unless that is done."""
        self.step.need("fairseq-preprocess", "subword-nmt")
        inputs, record = self.inputs(), self.bench.bin / "provenance.json"
        if not self.step.finished(record, inputs):
            self.step.record(record, inputs, self.bench.bin, *self.make())

    def fetch(self, own: str, function: str, out: pathlib.Path, *words: Any) -> None:
        """Fetch what SOURCES names, and let a function of ``lib`` make ``out`` of it."""
        sources, downloads = self.step.path("SOURCES"), self.bench.home / "downloads"
        with self.step.remedy(f"{own} takes a copy of your own"):
            self.step.call("fetch.fetch", sources, downloads)
        self.step.call(function, sources, downloads, out, *words)

    def keep_test(self, raw: pathlib.Path) -> None:
        """Keep the raw test set, which the scores are computed on."""
        kept = self.step.make(self.bench.home / "raw")
        for path in (raw / f"test.{side}" for side in self.bench.languages):
            if self.step.made(path) and raw.resolve() != kept.resolve():
                self.step.call("shutil.copy", path, kept)


def family_of(step: Step) -> Family:
    """The family of the recipe, whose setting ``family`` is ``module.Class``."""
    made: Family = find(step["family"])(step)
    return made


def prepare(step: Step) -> None:
    """An action: the corpus of the recipe."""
    family_of(step).prepare()


def train_config(
    step: Step,
    devices: Devices,
    folder: pathlib.Path,
    corpus: pathlib.Path,
    config: str,
    *own: str,
    frozen: pathlib.Path | None = None,
    updates: int | None = None,
    average: str | None = None,
) -> None:
    """Train what a configuration describes: ``folder/model.pt``, an average; it resumes.

    Args:
        config: its name, see configs/papers.yaml; the whole of it is written into ``folder``.
        own: more overrides.
        frozen: a checkpoint whose parameters are put back as they were.
        updates: of the smoke profile (default: SMOKE_UPDATES).
        average: of so many checkpoints (default: AVERAGE).
    """
    checkpoints, bench = step.make(folder) / "checkpoints", Benchmark(step)
    settings = recipe_config.read(config)
    if not step.dry:
        mend(checkpoints)
        write_text(folder / f"{config}.yaml", recipe_config.text(settings))
    last = [*step.settings.words("hydra_flags"), *step.settings.words("HYDRA_FLAGS")]
    shrink = bench.smoke and step["SMOKE_SHAPES"] == "tiny"
    smoke = (updates or step.settings.number("SMOKE_UPDATES")) if shrink else None
    most = step.settings.number("MAX_TOKENS") if step["MAX_TOKENS"] else None
    # Where the last overrides set the batch, what the paper's comes to here is not logged.
    log = (lambda _: None) if any(w.startswith(recipe_config.OF_BATCH) for w in last) else step.log
    fitted = recipe_config.overrides(settings, devices.gpus, most, smoke, log, own)
    fitted += ["common.cpu=true"] * devices.cpu
    fitted += ["common.fp16=false"] * (devices.precision != "fp16")
    fitted += ["common.bf16=true"] * (devices.precision == "bf16")
    devices.launch(
        LIB / "hydra_train.py", "--config-dir", folder, "--config-name", config,
        f"common.user_dir='{USER_DIR}'", f"common.seed={step['SEED']}", f"task.data='{corpus}'",
        f"task.source_lang={bench.src}", f"task.target_lang={bench.tgt}",
        f"hydra.run.dir='{folder}/hydra'", f"checkpoint.save_dir='{checkpoints}'",
        *own, *fitted, *last, log=folder / "train.log",
    )  # fmt: skip
    put_back = ["--frozen", frozen] if frozen else []
    step.average(folder / "model.pt", checkpoints, "--last", average or step["AVERAGE"], *put_back)


def own_overrides(bench: Benchmark, row: Model) -> tuple[list[str], dict[str, pathlib.Path]]:
    """The overrides of a model with checkpoints instead of ``{model}``, and these by override."""
    words, used = [], {}
    for word in row.overrides.split():
        name, _, value = word.partition("=")
        if match := re.fullmatch(r"{([a-z0-9_]+)}", value):
            used[name] = bench.model(match[1])
            word = f"{name}='{used[name]}'"
        words.append(word)
    return words, used


def train(step: Step, stage: str) -> None:
    """An action: train the chosen models that belong to a stage."""
    bench = Benchmark(step)
    models = bench.chosen_models(stage)
    devices = Devices(step)
    for row in models:
        step.commands = []
        folder, corpus = bench.model(row.name).parent, bench.corpus(row.corpus)
        own, used = own_overrides(bench, row)
        declared = Part(step.recipe.file, f"models.{row.name}", row)
        config = Part(recipe_config.CONFIGS, row.config, recipe_config.read(row.config))
        inputs = [*bench.inputs(corpus), config, declared, *used.values()]
        record = folder / "provenance.json"
        if step.finished(record, inputs):
            continue
        step.log(f"{row.name}: {row.config} on {corpus}")
        tuned = "model.freeze_base=false" in own
        frozen = None if tuned else used.get("model.init_from")
        train_config(step, devices, folder, corpus, row.config, *own, frozen=frozen)
        step.record(record, inputs, folder / "model.pt")
    if not models:
        step.log(f"none of MODELS ({step['MODELS']}) belongs to this step")


def distill(step: Step) -> None:
    """An action: the teacher rewrites the training targets, where a model is trained on them."""
    if any(row.corpus == "distilled" for row in step.recipe.models()):
        bench = Benchmark(step)
        models.distill(
            step, corpus=bench.bin, files=",".join(bench.languages),
            pair=f"{bench.src},{bench.tgt}",
            teacher=bench.model(step["teacher"]), dest=bench.distilled, beam=step["DISTILL_BEAM"],
            tokens=step["DISTILL_TOKENS"],
        )  # fmt: skip


def stand_in(step: Step, name: str, folder: pathlib.Path, config: str, *own: str) -> pathlib.Path:
    """A tiny model after two updates, for what the smoke profile does not fetch."""
    step.log(f"{name}: a tiny stand-in of {config}")
    start = ("checkpoint.finetune_from_model=null", *own)
    path = folder / "stand_in"
    devices = Devices(step)
    train_config(step, devices, path, Benchmark(step).bin, config, *start, updates=2, average="1")
    return path / "model.pt"
