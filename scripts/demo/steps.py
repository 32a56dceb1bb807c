"""The demo's own steps: corpora from Debian packages or the user's text, and packing."""

import json
import pathlib
import shutil
import tempfile
from typing import List, NamedTuple

from models import train
from prepare import apply_codes, binarise, tokenise
from recipe import StepError
from step import Step, flags


def own_files(step: Step, *names: str) -> List[str]:
    """The files that settings name; nothing where all of them are empty.

    Raises:
        StepError: some are named, and one is no file.
    """
    if not any(step[name] for name in names):
        return []
    for name in names:
        if not step.path(name).is_file():
            both = f"; set both {' and '.join(names)}" if len(names) > 1 else ""
            raise StepError(f"{name}: '{step[name]}' is no file{both}")
    return [step[name] for name in names]


def corpus(step: Step) -> None:
    """An action: the English-German corpus, and held-out sentences with a named licence."""
    work = step.path("WORK")
    out, held = work / "ende", work / "heldout"
    inputs = own_files(step, "EN_FILE", "DE_FILE")
    record = out / "provenance.json"
    if step.finished(record, inputs):
        return
    if not (out / "test.de").exists():
        fetched = ["--work", work / "packages", "--tier", step["TIER"]]
        words = ["--own", *inputs] if inputs else fetched
        failure = "the corpus could not be made: see above"
        step.program("corpus.build_ende", "--out", out, *words, failure=failure)
    pick_heldout(step, "ende", held, "--corpus", out)
    step.record(record, inputs, out, held)


def edit_corpus(step: Step) -> None:
    """An action: English with errors, corrected English, and held-out sentences."""
    work = step.path("WORK")
    out, held, inputs = work / "edit", work / "edit_heldout", [str(work / "ende/origin.tsv")]
    words = ["--work", work / "edit_packages", "--seed", step["SEED"]]
    for name, flag in (("EDIT_EN_FILE", "--own"), ("MISSPELLINGS", "--misspellings")):
        for path in own_files(step, name):
            inputs.append(path)
            words += [flag, path]
    record = out / "provenance.json"
    if step.finished(record, inputs):
        return
    if not (out / "test.tgt").exists():
        failure = "the corpus could not be made: see above"
        step.program("corpus.build_edit", "--out", out, *words, failure=failure)
    pick_heldout(step, "edit", held, "--corpus", work / "ende", "--edit-corpus", out)
    step.record(record, inputs, out, held)


def pick_heldout(step: Step, kind: str, out: pathlib.Path, *words: object) -> None:
    """Sentences that no one trained on."""
    failure = "the held-out sentences could not be chosen: see above"
    chosen = ("--out", out, "--count", step["HELDOUT"])
    step.program("corpus.pick_heldout", kind, *words, *chosen, failure=failure)


def drafter(step: Step) -> None:
    """An action: train the drafter that DRAFTER names: attached to the verifier, or on its own."""
    work, settings = step.path("WORK"), step.settings
    verifier = str(work / "verifier/verifier.pt")
    every = settings.number("SAVE_EVERY") if settings.given("SAVE_EVERY") else 250
    if step["DRAFTER"] == "attached":
        own = "--arch attached_drafter_base --chain-width 256 --soft-targets 0.5 --lr 2e-3"
        own += " --warmup-updates 400 --attach-to"
    else:
        own = "--arch spec_drafter_base --source-copy --lr 1e-3 --warmup-updates 300"
        own += " --init-encoder-from"
    shared = """--share-all-embeddings --encoder-embed-dim 256 --encoder-ffn-embed-dim 512
        --encoder-attention-heads 4 --encoder-normalize-before --decoder-normalize-before
        --init-decoder-layers 0,5 --criterion glancing_block_loss --label-smoothing 0
        --glancing-start 0 --glancing-stop 0 --block-loss-decay 0.85 --clip-norm 10.0
        --max-source-positions 256 --max-target-positions 256
        --skip-invalid-size-inputs-valid-test --best-checkpoint-metric accepted
        --maximize-best-checkpoint-metric"""
    chosen = flags(
        [*own.split(), verifier, "--init-decoder-from", verifier], block_size=step["BLOCK"],
        num_cuts=step["CUTS"], max_tokens=step["DRAFTER_TOKENS"], save_interval_updates=every,
        keep_interval_updates=step["AVERAGE"], validate_interval_updates=4 * every,
    )  # fmt: skip
    train(
        step, *chosen, *shared.split(), corpus=f"{work}/bin/ende_distilled", pair="en,de",
        output=f"{work}/drafter/drafter.pt", updates=step["DRAFTER_UPDATES"],
        average=step["AVERAGE"], inputs=verifier,
    )  # fmt: skip


class Pack:
    """A folder of its own for a trained pair, which takes its place when it is complete."""

    def __init__(self, step: Step, dest: pathlib.Path) -> None:
        self._step, self._dest = step, dest
        self._folder = dest.parent / f".{dest.name}.partial"
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)

    def copy(self, path: pathlib.Path, name: str = "") -> pathlib.Path:
        """Take a file, under another name where one is given."""
        return pathlib.Path(shutil.copy(path, self._folder / (name or path.name)))

    def checkpoint(self, path: pathlib.Path) -> None:
        """Store a checkpoint in fp16."""
        out = self._folder / path.name
        self._step.program("average_checkpoints", path, "--half", "--output", out)

    def heldout(self, folder: pathlib.Path, pair: List[str], languages: List[str]) -> None:
        """Raw text, and a test set for fairseq-generate; needs codes and dictionaries here."""
        step, pack = self._step, self._folder
        for name in (*(f"heldout.{side}" for side in pair), "origins.tsv"):
            self.copy(folder / name)
        with tempfile.TemporaryDirectory() as name:
            scratch = pathlib.Path(name)
            for side, language in zip(pair, languages):
                tokens = scratch / f"heldout.tok.{side}"
                tokenise(step, folder / f"heldout.{side}", tokens, language)
                apply_codes(step, pack / "codes", tokens, scratch / f"heldout.bpe.{side}")
            words = ["--srcdict", pack / f"dict.{pair[0]}.txt"]
            words += ["--tgtdict", pack / f"dict.{pair[1]}.txt"]
            log = self._dest.parent / f"{self._dest.name}.preprocess.log"
            prefixes = {"test": scratch / "heldout.bpe"}
            binarise(step, scratch / "bin", pair, prefixes, *words, log=log)
            for path in (scratch / "bin").glob(f"test.{'-'.join(pair)}.*"):
                self.copy(path)
            log.unlink()
        step.commands = [text for text in step.commands if name not in text]

    def history(self, records: List[pathlib.Path]) -> None:
        """Join the records of the steps before; of a step run by hand there is none."""
        (self._folder / "history").mkdir()
        for path in records:
            if path.is_file():
                made_by = json.loads(path.read_text(encoding="utf-8"))["step"]
                self.copy(path, f"history/{made_by}.json")
            else:
                self._step.log(
                    f"warning: {path} is missing; the pack will not say how that step was run"
                )

    def publish(self, inputs: List[pathlib.Path]) -> None:
        """Put it in place, and check the size of all packed pairs together."""
        step, dest, most = self._step, self._dest, self._step.settings.number("MAX_PACK_BYTES")
        parent = dest.parent
        step.names.append(("PACKED", str(parent)))
        shutil.rmtree(dest, ignore_errors=True)
        self._folder.rename(dest)
        step.record(dest / "provenance.json", inputs, dest)
        pairs = [path for folder in parent.glob("demo_*") for path in folder.rglob("*")]
        total = sum(path.stat().st_size for path in pairs if path.is_file())
        said = f"the packed pairs in {parent} hold {total} bytes"
        step.log(f"{said} of at most {most}")
        if total > most:
            raise StepError(
                f"{said}, more than MAX_PACK_BYTES ({most}): train a smaller drafter or verifier"
            )


class Parts(NamedTuple):
    """What a pack is made of; several are separated by commas.

    Attributes:
        dest: folder to make.
        licence: file of demo/licences.
        pair: source and target suffix.
        languages: of the two, for the tokeniser.
        codes: BPE codes.
        bin: binarised corpus, for the dictionaries.
        heldout: folder of held-out sentences.
        models: checkpoints.
        history: records of the steps before, below WORK.
    """

    dest: str
    licence: str
    pair: str
    languages: str
    codes: str
    bin: str
    heldout: str
    models: str
    history: str


def pack(step: Step, **named: str) -> None:
    """An action: pack a pair for the repository; its parameters are ``Parts``."""
    step.need("fairseq-preprocess", "subword-nmt")
    parts, sides = Parts(**named), named["pair"].split(",")
    codes, heldout = pathlib.Path(parts.codes), pathlib.Path(parts.heldout)
    checkpoints = [pathlib.Path(path) for path in parts.models.split(",")]
    dictionaries = [pathlib.Path(parts.bin) / f"dict.{side}.txt" for side in sides]
    out, inputs = pathlib.Path(parts.dest), [*checkpoints, codes, *dictionaries, heldout]
    if step.finished(out / "provenance.json", inputs):
        return
    new = Pack(step, out)
    new.copy(codes, "codes")
    for path in dictionaries:
        new.copy(path)
    for path in checkpoints:
        new.checkpoint(path)
    new.heldout(heldout, sides, parts.languages.split(","))
    new.copy(step.recipe.folder / "licences" / parts.licence, "LICENSE.md")
    new.history([step.path("WORK") / name for name in parts.history.split(",")])
    new.publish(inputs)
