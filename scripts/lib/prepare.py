"""Raw parallel text -> tokens -> joint BPE -> binarised corpus. Every file is made once."""

import os
import pathlib
import shutil
from typing import Any, Dict, Iterable, Optional, Sequence

from recipe import StepError
from step import Step, fresh, publish

SPLITS = ("train", "valid", "test")


def tokenise(step: Step, raw: pathlib.Path, out: pathlib.Path, language: str) -> None:
    """Tokenise a file as fairseq's ``--tokenizer moses`` does."""
    if not out.exists():
        step.program("tokenise", "--lang", language, raw, out)


def apply_codes(step: Step, codes: pathlib.Path, tokens: pathlib.Path, out: pathlib.Path) -> None:
    """Cut a file of tokens into subwords."""
    step.produce(out, "subword-nmt", "apply-bpe", "-c", codes, "-i", tokens)


def learn_codes(step: Step, folder: pathlib.Path, pair: Sequence[str], merges: str) -> None:
    """``folder/codes``, learnt on both sides of the training text together."""
    if (folder / "codes").exists():
        return
    step.log(f"learning {merges} merges")
    both = folder / "both.partial"
    with open(both, "wb") as joined:
        for side in pair:
            with open(folder / f"train.tok.{side}", "rb") as stream:
                shutil.copyfileobj(stream, joined)
    command = ("subword-nmt", "learn-bpe", "-s", merges, "-i", both)
    step.produce(folder / "codes", *command, log=folder / "learn.log")
    both.unlink()


def binarise(
    step: Step,
    bin_: pathlib.Path,
    pair: Sequence[str],
    prefixes: Dict[str, Any],
    *flags: Any,
    log: pathlib.Path,
    workers: Optional[str] = None,
    links: Iterable[pathlib.Path] = (),
) -> None:
    """fairseq-preprocess: ``bin_``, which is there only when it is complete.

    Args:
        step: at work.
        bin_: folder to make.
        pair: source and target suffix.
        prefixes: of the files of each split: train, valid, test.
        flags: more flags of the command.
        log: file for its output.
        workers: processes (default: THREADS).
        links: more files that belong in the folder.
    """
    step.log("binarising")
    partial = fresh(bin_)
    words = [word for split, prefix in prefixes.items() for word in (f"--{split}pref", prefix)]
    step.run(
        "fairseq-preprocess", "-s", pair[0], "-t", pair[1], *words, *flags,
        "--destdir", partial, "--workers", workers or step["THREADS"], log=log, mode="w",
    )  # fmt: skip
    for path in links:
        try:
            os.link(path, partial / path.name)
        except OSError:  # another file system
            shutil.copy(path, partial)
    publish(partial, bin_)


def prepare(
    step: Step,
    raw: pathlib.Path,
    folder: pathlib.Path,
    bin_: pathlib.Path,
    pair: Sequence[str],
    languages: Sequence[str],
    merges: str,
    dictionary: Optional[pathlib.Path] = None,
) -> None:
    """Make a binarised corpus.

    Args:
        step: at work.
        raw: folder of ``SPLIT.SIDE``.
        folder: of what is made between: ``SPLIT.tok.SIDE``, ``codes``, ``SPLIT.bpe.SIDE``; what is
            there is taken as it is.
        bin_: folder to make.
        pair: source and target suffix.
        languages: of the two, for the tokeniser.
        merges: how many BPE merges to learn.
        dictionary: to binarise with, in place of the training text's own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [(split, side) for split in SPLITS for side in pair]
    missing = [one for one in files if not (folder / "{}.bpe.{}".format(*one)).exists()]
    if missing:
        for split, side in files:
            tokens = folder / f"{split}.tok.{side}"
            tokenise(step, raw / f"{split}.{side}", tokens, languages[pair.index(side)])
        learn_codes(step, folder, pair, merges)
    for split, side in missing:
        tokens, out = (folder / f"{split}.{kind}.{side}" for kind in ("tok", "bpe"))
        apply_codes(step, folder / "codes", tokens, out)
    if not (bin_ / f"dict.{pair[1]}.txt").exists():
        prefixes = {split: folder / f"{split}.bpe" for split in SPLITS}
        more = ["--srcdict", dictionary] if dictionary else []
        log = folder / "preprocess.log"
        joint = ["--joined-dictionary", "--seed", step["SEED"], *more]
        binarise(step, bin_, pair, prefixes, *joint, log=log)


def corpus(
    step: Step, *, raw: str, out: str, bin: str, pair: str, languages: str, merges: str
) -> None:
    """An action: ``bin`` out of ``raw``, with what is made between in ``out``."""
    step.need("fairseq-preprocess", "subword-nmt")
    sides = pair.split(",")
    inputs = [f"{raw}/{split}.{side}" for split in SPLITS for side in sides]
    record = pathlib.Path(bin) / "provenance.json"
    if step.finished(record, inputs):
        return
    record.parent.parent.mkdir(parents=True, exist_ok=True)
    folders = map(pathlib.Path, (raw, out, bin))
    prepare(step, *folders, sides, languages.split(","), merges)
    step.record(record, inputs, f"{out}/codes", bin)


def fetch(step: Step, sources: pathlib.Path, downloads: pathlib.Path, remedy: str = "") -> None:
    """What a sources.tsv names."""
    failure = "it cannot be had: see above" + (f"; {remedy}" if remedy else "")
    step.program("fetch", sources, downloads, failure=failure)


def split_sample(
    step: Step, path: pathlib.Path, folder: pathlib.Path, suffix: str, every: int = 10
) -> None:
    """``folder/{train,valid,test}.suffix`` out of a file.

    Of 10 lines 8 are to train on; of ``every`` lines one each is to validate and to test.

    Raises:
        StepError: there is no such file.
    """
    if not path.is_file():
        raise StepError(f"SAMPLE: no file {path}")
    keeps = ("NR % 10 > 1", f"NR % {every} == 1", f"NR % {every} == {10 % every}")
    for split, keep in zip(SPLITS, keeps):
        step.produce(folder / f"{split}.{suffix}", "awk", keep, path)
