"""Train, distil and decode with fairseq's commands, as the recipes around one verifier do."""

import logging
import pathlib
import re
import shutil
import zipfile
from collections.abc import Sequence
from typing import Any

from launch import Devices
from recipe import StepError
from step import USER_DIR, Step

from fairseq_specdec.commands import words as shared
from fairseq_specdec.io.atomic import replacing

logger = logging.getLogger("models")

WORDS_AND_SIZES = ("--remove-bpe", "--skip-invalid-size-inputs-valid-test")


def corpus_files(folder: Any, src: str, tgt: str) -> list[pathlib.Path]:
    """What training reads."""
    names = [f"train.{src}-{tgt}.{side}.bin" for side in (src, tgt)]
    return [pathlib.Path(folder) / name for name in (f"dict.{src}.txt", *names)]


def updates_of(path: pathlib.Path) -> int:
    """The updates that a checkpoint's name gives; -1 if it gives none."""
    match = re.fullmatch(r"checkpoint_\d+_(\d+)\.pt", path.name)
    return int(match.group(1)) if match else -1


def mend(folder: pathlib.Path) -> None:
    """Before a training is resumed: replace a last checkpoint that is cut off.

    fairseq makes that file by copying the newest checkpoint; a run that is killed meanwhile leaves
    one that no run can go on from. It is replaced by the newest that is whole: a checkpoint is a
    zip archive, whose directory is at its end, and a cut-off file has none.
    """
    last = folder / "checkpoint_last.pt"
    if not last.exists() or zipfile.is_zipfile(str(last)):
        return
    for path in sorted(folder.glob("checkpoint_*_*.pt"), key=updates_of, reverse=True):
        if updates_of(path) >= 0 and zipfile.is_zipfile(str(path)):
            with open(path, "rb") as stream, replacing(last, "wb") as copy:
                shutil.copyfileobj(stream, copy)
            logger.info("%s was cut off: going on from %s", last, path.name)
            return
    raise ValueError(f"{last} is cut off, and so are the others: delete it to start anew")


def train_model(
    step: Step,
    devices: Devices,
    corpus: Any,
    pair: Sequence[str],
    output: pathlib.Path,
    updates: int,
    *own: Any,
    average: str = "1",
) -> None:
    """fairseq-train, then the average of the last checkpoints; it resumes. ``output``: checkpoint
    to write; those of the training lie beside it. ``own``: flags of the model, and those that
    differ from ``training_flags``."""
    folder = step.make(output.parent)
    if not step.dry:
        mend(folder)
    # bf16 halves the memory traffic that bounds training on a CPU.
    device = ["--cpu", "--bf16"] if devices.cpu else ["--fp16"]
    step.run(
        "fairseq-train", corpus, *device, "--user-dir", USER_DIR, "--seed", step["SEED"],
        "--task", "translation", "-s", pair[0], "-t", pair[1],
        *shared.training_flags(own, folder, updates), "--no-epoch-checkpoints", "--no-progress-bar",
        log=folder.with_name(folder.name + ".log"),
    )  # fmt: skip
    step.average(output, folder, "--last", average)


def train(
    step: Step,
    *own: str,
    corpus: str,
    pair: str,
    output: str,
    updates: str,
    average: str = "1",
    inputs: str = "",
) -> None:
    """An action: train one model. ``inputs``: what else it starts from, separated by commas."""
    step.need("fairseq-train")
    path = pathlib.Path(output)
    record = path.parent / "provenance.json"
    needed = [*filter(None, inputs.split(",")), *corpus_files(corpus, *pair.split(","))]
    if step.finished(record, needed):
        return
    if not updates.isdigit():
        raise StepError(f"{step.name}: {updates!r} is no number of updates")
    more = (pair.split(","), path, int(updates), *own)
    train_model(step, Devices(step), corpus, *more, average=average)
    step.record(record, needed, path)


def distill(
    step: Step,
    *,
    corpus: Any,
    pair: str,
    teacher: Any,
    dest: Any,
    beam: str,
    tokens: str,
    limit: str = "0",
    files: str = "",
) -> None:
    """An action: let the teacher rewrite the training targets. The processes share the work, and
    the last one publishes.

    Args:
        limit: 0 for all of them.
        files: suffixes of the corpus in the order of its files' names (default: the pair).
    """
    out, sides = pathlib.Path(dest), pair.split(",")
    record = out.with_name(out.name + ".provenance.json")
    dictionary, *texts = corpus_files(corpus, *(files or pair).split(","))
    inputs = [teacher, dictionary.with_name(f"dict.{sides[0]}.txt"), *texts]
    if step.finished(record, inputs):
        return
    devices = Devices(step)
    own = ["--seed", step["SEED"], "--max-tokens", tokens, WORDS_AND_SIZES[1]]
    own += step.settings.words("DISTILL_FLAGS")
    words = shared.distill_flags(own, USER_DIR, teacher, dest, shared.one_pair(*sides), beam)
    words += [*devices.half, *(["--limit", limit] if limit != "0" else [])]
    log = out.with_name(out.name + ".log")
    devices.launch("-m", "fairseq_specdec.data.distill", corpus, *words, log=log)
    if not step.made(out / dictionary.name):
        step.log(f"this share is done; the process that finishes last publishes {out}")
    else:
        step.record(record, inputs, out)


def decode(
    step: Step,
    name: str,
    model: Any,
    *own: Any,
    corpus: Any,
    pair: Sequence[str],
    folder: pathlib.Path,
    subset: str = "test",
    device: Sequence[str] = (),
) -> pathlib.Path:
    """Decode a test set, one sentence at a time.

    Returns:
        ``folder/name.out``, whose last lines may hold BLEU; times, Tok. and Iter. are at the end of
        it or of ``name.log``.
    """
    step.make(folder)
    out, log = (folder / f"{name}.{end}" for end in ("out", "log"))
    words = shared.flags(own, task="translation_specdec", beam="1", batch_size="1")
    lengths = step.settings.get("LENGTH_FLAGS", "").split()
    step.run(
        "fairseq-generate", corpus, "--user-dir", USER_DIR, "--gen-subset", subset, "-s", pair[0],
        "-t", pair[1], "--path", model, *lengths, *words, *device,
        "--no-progress-bar", "--num-workers", "0", out=out, log=log, mode="w",
    )  # fmt: skip
    return out
