"""Raw parallel text -> tokens -> joint BPE -> binarised corpus. Every file is made once."""

import os
import pathlib
import shutil
from collections.abc import Iterable, Sequence
from typing import Any

from recipe import REPO
from sacremoses import MosesTokenizer
from step import Step
from text_files import read_lines, write_lines

from fairseq_specdec.io.atomic import PathLike
from fairseq_specdec.io.progress import erased_bar as bar

SPLITS = ("train", "valid", "test")


def tokenise(raw: PathLike, out: PathLike, language: str) -> None:
    """Tokenise a file of one sentence a line as fairseq's ``--tokenizer moses`` does by default."""
    tokenizer = MosesTokenizer(language)
    lines = bar(read_lines(raw), "tokenising", unit="line")
    how = {"aggressive_dash_splits": True, "return_str": True, "escape": True}
    write_lines(out, (tokenizer.tokenize(line.strip(), **how) for line in lines))


def apply_codes(step: Step, codes: pathlib.Path, tokens: pathlib.Path, out: pathlib.Path) -> None:
    """Cut a file of tokens into subwords."""
    step.produce(out, "subword-nmt", "apply-bpe", "-c", codes, "-i", tokens)


def join(out: pathlib.Path, *paths: pathlib.Path) -> None:
    """One file after the other."""
    with open(out, "wb") as joined:
        for path in paths:
            with open(path, "rb") as stream:
                shutil.copyfileobj(stream, joined)


def learn_codes(step: Step, folder: pathlib.Path, pair: Sequence[str], merges: str) -> None:
    """``folder/codes``, learnt on both sides of the training text together."""
    both = folder / "both.partial"
    step.log(f"learning {merges} merges")
    step.call("prepare.join", both, *(folder / f"train.tok.{side}" for side in pair))
    command = ("subword-nmt", "learn-bpe", "-s", merges, "-i", both)
    step.produce(folder / "codes", *command, log=folder / "learn.log")
    step.call("os.remove", both)


def publish(partial: pathlib.Path, path: pathlib.Path, links: Iterable[pathlib.Path]) -> None:
    """Put a folder that is complete in the place of an earlier one, with further files."""
    for link in links:
        try:
            os.link(link, partial / link.name)
        except OSError:  # another file system
            shutil.copy(link, partial)
    shutil.rmtree(path, ignore_errors=True)
    partial.rename(path)


def binarise(
    step: Step,
    bin_: pathlib.Path,
    pair: Sequence[str],
    prefixes: dict[str, Any],
    *flags: Any,
    log: pathlib.Path,
    workers: str | None = None,
    links: Iterable[pathlib.Path] = (),
) -> None:
    """fairseq-preprocess: ``bin_``, which is there only when it is complete. ``prefixes``: of the
    files of each split: train, valid, test. ``links``: more files that belong in the folder."""
    step.log("binarising")
    partial = bin_.with_name(bin_.name + ".partial")
    step.call("shutil.rmtree", partial, ignore_errors=True)
    words = [word for split, prefix in prefixes.items() for word in (f"--{split}pref", prefix)]
    step.run(
        "fairseq-preprocess", "-s", pair[0], "-t", pair[1], *words, *flags,
        "--destdir", partial, "--workers", workers or step["THREADS"], log=log, mode="w",
    )  # fmt: skip
    step.call("prepare.publish", partial, bin_, list(links))


def prepare(
    step: Step,
    raw: pathlib.Path,
    folder: pathlib.Path,
    bin_: pathlib.Path,
    pair: Sequence[str],
    languages: Sequence[str],
    merges: str,
    dictionary: pathlib.Path | None = None,
) -> None:
    """Make a binarised corpus.

    Args:
        raw: folder of ``SPLIT.SIDE``.
        folder: of what is made between: ``SPLIT.tok.SIDE``, ``codes``, ``SPLIT.bpe.SIDE``; what is
            there is taken as it is.
        dictionary: to binarise with, instead of the training text's own.
    """
    step.make(folder)
    files = [(split, side) for split in SPLITS for side in pair]
    missing = [one for one in files if step.lacks(folder / "{}.bpe.{}".format(*one))]
    if missing:
        for split, side in files:
            tokens, language = folder / f"{split}.tok.{side}", languages[pair.index(side)]
            step.once(tokens, "prepare.tokenise", raw / f"{split}.{side}", tokens, language)
        if step.lacks(folder / "codes"):
            learn_codes(step, folder, pair, merges)
    for split, side in missing:
        tokens, out = (folder / f"{split}.{kind}.{side}" for kind in ("tok", "bpe"))
        apply_codes(step, folder / "codes", tokens, out)
    if step.lacks(bin_ / f"dict.{pair[1]}.txt"):
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
    step.make(record.parent.parent)
    folders = map(pathlib.Path, (raw, out, bin))
    prepare(step, *folders, sides, languages.split(","), merges)
    step.record(record, inputs, f"{out}/codes", bin)


def sample(
    step: Step, folder: pathlib.Path, ends: dict[str, str], pair: str, remark: str = ""
) -> None:
    """``folder/{train,valid,test}.SIDE`` out of a demo pair's held-out sentences, instead of the
    full corpus. ``ends``: of its files, by side.

    Of 10 lines 8 are to train on; one of 20 each is to validate and to test.
    """
    prefix = REPO / "data-bin" / pair / "heldout"
    step.log(f"a small sample instead of the corpus: {prefix}{remark}")
    for side, end in ends.items():
        for split, keep in zip(SPLITS, ("NR % 10 > 1", "NR % 20 == 1", "NR % 20 == 10")):
            step.produce(folder / f"{split}.{side}", "awk", keep, f"{prefix}.{end}")
