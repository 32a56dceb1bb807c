"""The papers' translation tables at the scale of one machine: its corpus, verifier and heads."""

import os
import pathlib
import re

from benchmark import Benchmark
from prepare import prepare as prepare_corpus
from recipe import REPO, StepError
from step import Step, run_recipe
from translation import sample_corpus

PAIR = REPO / "data-bin" / "demo_ende"


def link_to(path: pathlib.Path, link: pathlib.Path) -> None:
    """A link in the place of an earlier one."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.is_symlink() or link.is_file():
        link.unlink()
    link.symlink_to(os.path.realpath(path))


def corpus(step: Step, bench: Benchmark, dictionaries: pathlib.Path) -> None:
    """The corpus of the recipe demo, or a sample, in the verifier's own subwords: what the packages
    hold changes with time, and subwords learnt from them with it."""
    raw, prepared = bench.home / "raw", bench.home / "prepared"
    step.make(prepared)
    if bench.smoke:
        sample_corpus(step, bench, raw)
        texts = raw
    else:
        run_recipe(step, "demo", "01_corpus")
        step.make(raw)
        texts = step.path("WORK") / "ende"
        for side in bench.languages:
            step.call("shutil.copy", texts / f"test.{side}", raw)
    step.call("shutil.copy", dictionaries / "codes", prepared)
    pair, own = bench.languages, dictionaries / "dict.en.txt"
    prepare_corpus(step, texts, prepared, bench.bin, pair, pair, merges="", dictionary=own)


def given_models(step: Step) -> list[pathlib.Path]:
    """The verifier, and the drafter that reads it, if there is one."""
    verifier, attached = step.path("VERIFIER"), step["ATTACHED"]
    if not attached and os.path.realpath(verifier) == os.path.realpath(PAIR / "verifier.pt"):
        attached = "" if step.settings.given("ATTACHED") else str(PAIR / "drafter.pt")
    return [verifier, *([pathlib.Path(attached)] if attached else [])]


def prepare(step: Step) -> None:
    """An action: the corpus, the verifier that all is built on, and a drafter that reads it."""
    step.need("fairseq-preprocess", "subword-nmt")
    bench, models = Benchmark(step), given_models(step)
    dictionaries = pathlib.Path(step["DICTIONARIES"] or models[0].parent)
    dicts = [dictionaries / f"dict.{side}.txt" for side in bench.languages]
    codes = dictionaries / "codes"
    for path in [*models, *dicts, codes]:
        if not path.is_file():
            raise StepError(
                f"{path} is missing: VERIFIER names a trained verifier, DICTIONARIES the folder of "
                "its dict.en.txt and dict.de.txt and of the codes of its subwords, ATTACHED a "
                "drafter that reads it"
            )
    inputs, record = [*models, *dicts, codes], bench.home / "provenance.json"
    if step.finished(record, inputs):
        return
    corpus(step, bench, dictionaries)
    for name, path in zip(("verifier", "attached"), models):
        step.call("ende_small.steps.link_to", path, bench.model(name))
    step.record(record, inputs, *(bench.bin / path.name for path in dicts), bench.out / "models")


def heads(step: Step) -> None:
    """An action: blockwise heads on the verifier, which stays as it is, by the recipe blockwise."""
    bench = Benchmark(step)
    folder = bench.out / "models" / "blockwise"
    settings = {
        "BIN": bench.bin, "DISTILLED": bench.distilled, "VERIFIER": bench.model("verifier"),
        "OUT": folder, "PROFILE": step["PROFILE"], "SRC": bench.src, "TGT": bench.tgt,
    }  # fmt: skip
    for row in bench.chosen_models("heads"):
        (k,) = re.findall(r"^heads_(\d+)", row.name)
        model = f"{'original' if row.corpus == 'raw' else 'distilled'}/frozen_{k}"
        step.log(f"{row.name}: {model}")
        run_recipe(step, "blockwise", "01_heads", MODELS=model, **settings)
        path = folder / model / "model.pt"
        step.call("ende_small.steps.link_to", path, bench.model(row.name))
