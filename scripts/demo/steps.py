"""The demo's own steps: corpora, and packing."""

import json
import logging
import pathlib
import shutil

from models import corpus_files
from prepare import apply_codes, binarise
from recipe import LIB, StepError, part
from step import Step

logger = logging.getLogger("demo")


def own_files(step: Step, *names: str) -> list[str]:
    """The files that settings name; nothing where all of them are empty."""
    if not any(step[name] for name in names):
        return []
    for name in names:
        if not step.path(name).is_file():
            both = f"; set both {' and '.join(names)}" if len(names) > 1 else ""
            raise StepError(f"{name}: '{step[name]}' is no file{both}")
    return [step[name] for name in names]


def corpus(step: Step) -> None:
    """An action: the English-German corpus, and sentences held out of it."""
    work, recipe = step.path("WORK"), step.recipe.file
    out, held, fetched = work / "ende", work / "heldout", work / "fetched"
    own = own_files(step, "EN_FILE", "DE_FILE")
    inputs = own or [part(recipe, "sources")]
    record = out / "provenance.json"
    if step.finished(record, inputs):
        return
    texts, origin = own, "that of the text you supplied"
    if not own:
        with step.remedy("EN_FILE and DE_FILE take text of your own"):
            step.call("fetch.fetch", recipe, work / "downloads")
        step.call("parallel_text.write", recipe, work / "downloads", fetched, ["en", "de"])
        texts, origin = [str(fetched / "train.en"), str(fetched / "train.de")], "OPUS"
    words = (out, held, step.settings.number("HELDOUT"), origin)
    step.call("demo.corpus.write_parallel", *map(pathlib.Path, texts), *words)
    step.record(record, inputs, out, held)


def edit_corpus(step: Step) -> None:
    """An action: English with errors, corrected English, and sentences held out of it."""
    work = step.path("WORK")
    out, held, noise = work / "edit", work / "edit_heldout", work / "edit_noise"
    own = own_files(step, "EDIT_EN_FILE") or [str(work / "ende/train.en")]
    sets, record = own_files(step, "CONFUSION_SETS"), out / "provenance.json"
    if step.finished(record, [*own, *sets]):
        return
    clean = step.make(noise) / "clean.en"
    step.call("demo.corpus.write_clean", pathlib.Path(own[0]), clean)
    words = ["--seed", step["SEED"], "--workers", step["THREADS"]]
    words += ["--confusion-sets", *sets] if sets else []
    log = noise / "noise.log"
    step.run(step.python, LIB / "noise.py", clean, "--dest", noise / "train", *words, log=log)
    count = step.settings.number("HELDOUT")
    step.call("demo.corpus.write_edits", noise / "train", out, held, count)
    step.record(record, [*own, *sets], out, held)


def pack(
    step: Step,
    *,
    dest: str,
    pair: str,
    languages: str,
    codes: str,
    bin: str,
    heldout: str,
    models: str,
    history: str,
    listed: str = "",
) -> None:
    """An action: pack a trained pair, in a folder that is there when complete.

    Args:
        pair: source and target suffix, a comma between.
        codes: BPE codes.
        heldout: folder of held-out sentences.
        models: checkpoints, commas between.
        history: records of the steps before, below WORK; of a step run by hand there is none.
        listed: binarised corpus, for the drafter's shortlist; none without a drafter.
    """
    step.need("fairseq-preprocess", "subword-nmt")
    out, held, sides = pathlib.Path(dest), pathlib.Path(heldout), pair.split(",")
    checkpoints = [pathlib.Path(path) for path in models.split(",")]
    dictionaries = [pathlib.Path(bin) / f"dict.{side}.txt" for side in sides]
    inputs = [*checkpoints, pathlib.Path(codes), *dictionaries, held]
    inputs += corpus_files(listed, *sides) if listed else []
    if step.finished(out / "provenance.json", inputs):
        return
    new = out.parent / f".{out.name}.partial"
    step.call("shutil.rmtree", new, ignore_errors=True)
    texts = [held / f"heldout.{side}" for side in sides]
    step.make(new)
    for path in (*dictionaries, *texts, held / "origins.tsv"):
        step.call("shutil.copy", path, new)
    step.call("shutil.copy", codes, new / "codes")
    for path in checkpoints:
        step.average(new / path.name, path, "--half")
    if listed:
        words = [listed, "-s", sides[0], "-t", sides[1], "--drafter-path", new / "drafter.pt"]
        words += ["--out", new / "drafter.pt", "--force"]
        step.run(step.python, "-m", "fairseq_specdec.data.shortlist", *words)
    test_set(step, new, texts, languages.split(","), sides)
    records = [step.path("WORK") / name for name in history.split(",")]
    step.call("demo.steps.join_history", new / "history", records)
    step.call("prepare.publish", new, out, [])
    step.names.append(("PACKED", str(out.parent)))
    step.record(out / "provenance.json", inputs, out)


def test_set(
    step: Step, new: pathlib.Path, texts: list[pathlib.Path], languages: list[str], pair: list[str]
) -> None:
    """The held-out texts as a test set for fairseq-generate; codes and dictionaries are in new."""
    scratch = new / "scratch"
    step.make(scratch)
    for text, language in zip(texts, languages):
        tokens, bpe = (scratch / f"{kind}{text.suffix}" for kind in ("tok", "bpe"))
        step.call("prepare.tokenise", text, tokens, language)
        apply_codes(step, new / "codes", tokens, bpe)
    words = ["--srcdict", new / f"dict.{pair[0]}.txt", "--tgtdict", new / f"dict.{pair[1]}.txt"]
    log = scratch / "preprocess.log"
    binarise(step, scratch / "bin", pair, {"test": scratch / "bpe"}, *words, log=log)
    for name in (f"test.{'-'.join(pair)}.{side}.{end}" for side in pair for end in ("bin", "idx")):
        step.call("shutil.copy", scratch / "bin" / name, new)
    step.call("shutil.rmtree", scratch)


def join_history(folder: pathlib.Path, records: list[pathlib.Path]) -> None:
    """Copy the records of the steps before, by their steps' names."""
    folder.mkdir()
    for path in records:
        if path.is_file():
            made_by = json.loads(path.read_text(encoding="utf-8"))["step"]
            shutil.copy(path, folder / f"{made_by}.json")
        else:
            logger.warning("%s is missing; the pack will not record how that step was run", path)
