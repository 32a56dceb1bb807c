"""The steps that make a drafter: distil and train. Each is done once; a stopped one goes on."""

import glob
import json
import logging
import os
import shutil
import subprocess
import time
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary, data_utils

from fairseq_specdec.errors import UsageError

from ..checkpoints.reading import load_model
from ..data.merge import losses
from ..io.atomic import read_json, replacing
from . import commands
from .commands import Job
from .state import State
from .verifier import Fitting

logger = logging.getLogger("fairseq_specdec.accelerate")

PILOT = 256  # sentences whose distillation is timed, at least: they fill about 3 batches
PILOT_UPDATES = 10  # on them, which are timed
FEWEST = 1000  # sentences to distil
DISTILLING = 0.5  # most of the time
FIRST_SLICE = 100  # updates
SLICES = 8  # about how many validations
PATIENCE = 4  # validations without a better one, after which training ends
TELL_EVERY = 60.0  # seconds, of what a long step has done
TIME_OVER = "the time is over"
MOST_LOST = 0.5  # of the pairs; of more the data are not the verifier's
MOST_UNKNOWN = 0.05  # of the tokens, in text of the verifier's dictionary
_OTHER = (
    "DATA seem to be of other subwords, another dictionary or other languages than the verifier's: "
    "binarise text in its subwords with --srcdict and --tgtdict of its training"
)
_LOOPS = (
    "the text fits the verifier's dictionary, so the model loops or is undertrained, or was "
    "trained for other languages: look at what it writes, and train it longer"
)
REMEDIES = {
    **dict.fromkeys(("no_hypothesis", "empty_target", "length_limit", "length_ratio"), _OTHER),
    **dict.fromkeys(("source_too_long", "exceeds_max_tokens"),
                    "split DATA into sentences that the verifier can read"),
    "empty_source": "remove empty lines from DATA",
}  # fmt: skip


class Limits(NamedTuple):
    """How long to go on."""

    hours: float | None  # of distilling and training together; None: by ``updates``
    updates: int | None  # of training; None: by ``hours``
    accepted: float | None  # accepted tokens at which training ends
    sentences: int | None  # to distil at most; None: what ``hours`` allows


# ---- a process and its log -----------------------------------------------------------------------


def run(job: Job, words: list[str], log: str) -> float:
    """Run a command, its output added to a log; its seconds. How far it is is logged meanwhile."""
    step, path = os.path.splitext(log)[0], job.file("logs", log)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    began, status = time.monotonic(), None
    with open(path, "a", encoding="utf-8") as stream:
        before = stream.tell()
        process = subprocess.Popen(
            words, stdout=stream, stderr=subprocess.STDOUT, env=commands.environment(job)
        )
        try:
            while status is None:
                try:
                    status = process.wait(timeout=TELL_EVERY)
                except subprocess.TimeoutExpired:
                    _tell(step, _lines(path, before))
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if status:
        lines = [line for line in _lines(path) if line] or ["its log is empty"]
        errors = [line.partition("error: ")[2] for line in lines if "error: " in line]
        raise UsageError(step, f"{(errors or lines)[-1]} (all of it: {path})")
    return time.monotonic() - began


def _lines(path: str, start: int = 0) -> list[str]:
    with open(path, "rb") as stream:
        stream.seek(start)
        return [line.strip() for line in stream.read().decode("utf-8", "replace").splitlines()]


def _tell(step: str, lines: list[str]) -> None:
    """Log how far a step is: the last line of a counter, or the last figures of a training."""
    for line in reversed(lines):
        said = line.rpartition(" | ")[2]
        if said.endswith(" left"):
            logger.info("%s: %s", step, said)
            return
        if '"num_updates"' in said:
            logger.info("%s: update %s", step, json.loads(said)["num_updates"])
            return


def figures(job: Job, name: str) -> dict[str, float]:
    """The last figures that fairseq-train logged with ``--log-format json``, ``name`` in them."""
    (line, *_) = (each for each in reversed(_lines(job.file("logs", "train.log"))) if name in each)
    return {key: float(value) for key, value in json.loads(line[line.index("{") :]).items()}


# ---- distillation --------------------------------------------------------------------------------


def distil(job: Job, state: State, limits: Limits, fitting: Fitting) -> None:
    """The verifier's own output becomes the drafter's training targets."""
    limit = state.results("distil").get("limit", limits.sentences)
    if "limit" not in state.results("distil") and limits.hours is not None:
        began = time.monotonic()
        distilled, trained, pairs = rates(job, fitting)
        pilot = time.monotonic() - began
        most = one_epoch(limits.hours * 3600 - pilot, distilled, trained)
        most = max(FEWEST, most // pairs)
        limit = most if limit is None else min(limit, most)
        logger.info(
            "distil: %.0f sentences per second, in training %.0f, so at most %d%s",
            distilled, trained, limit, " of each pair" if pairs > 1 else "",
        )  # fmt: skip
        state.note("distil", done=False, pilot=pilot)
    state.note("distil", done=False, limit=limit)
    seconds = run(job, commands.distill(job, job.file("distilled"), limit), "distil.log")
    _, counts = _distilled(job, "distilled")
    state.note("distil", seconds=seconds, counts=counts)


def one_epoch(seconds: float, distilled: float, trained: float) -> int:
    """How many sentences to distil, in ``seconds`` for that and for training.

    As many as the updates that fit after it go over once; fewer, and so more epochs, where training
    is so fast that distilling would take more than ``DISTILLING`` of the time.

    Args:
        distilled, trained: sentences per second of distilling and of training.
    """
    share = min(DISTILLING, trained / (distilled + trained))
    return int(share * max(0.0, seconds) * distilled)


def rates(job: Job, fitting: Fitting) -> tuple[float, float, int]:
    """Sentences per second of distilling and of training, measured on a few; the number of
    pairs."""
    few = max(PILOT, job.max_tokens // 8)
    run(job, commands.distill(job, job.file("pilot"), few, shared=False), "distil.log")
    parts, _ = _distilled(job, "pilot")
    distilled = min(part["decoding"]["sentences_per_second_and_process"] for part in parts)
    run(job, commands.time_training(job, fitting, "pilot", PILOT_UPDATES), "train.log")
    shutil.rmtree(job.file("pilot"))
    last = figures(job, '"ups"')
    return distilled * (job.workers or 1), last["ups"] * last["bsz"], len(parts)


def _distilled(job: Job, folder: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What a distillation reports of each pair, and the sums of its counts. Raises UsageError: most
    of it is of no use, before hours are spent on the rest."""
    report = read_json(job.file(folder, "distill.json"))
    parts = list(report.get("pairs", {"": report}).values())
    counts = _sums([part["counts"] for part in parts])
    if counts["dropped"] > MOST_LOST * counts["chosen"]:
        remedy = REMEDIES[max(counts["reasons"], key=lambda reason: int(counts["reasons"][reason]))]
        remedy = _LOOPS if remedy == _OTHER and _unknown(job) < MOST_UNKNOWN else remedy
        raise UsageError("distil", losses(counts), remedy)
    return parts, counts


def _sums(counts: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts of several pairs, added up."""
    sums: dict[str, Any] = {}
    for name in dict.fromkeys(name for each in counts for name in each):
        values = [each[name] for each in counts if name in each]
        sums[name] = _sums(values) if isinstance(values[0], dict) else sum(values)
    return sums


def _unknown(job: Job) -> float:
    """Share of the source's tokens that the dictionary lacks, in the first sentences of a split."""
    source = job.all_pairs[0].partition("-")[0]
    files = sorted(glob.glob(os.path.join(glob.escape(job.data), f"*-*.{source}.idx")))
    if not files:
        return 1.0
    words = Dictionary.load(os.path.join(job.data, f"dict.{source}.txt"))
    text = data_utils.load_indexed_dataset(files[0][: -len(".idx")], words)
    tokens = torch.cat([text[i] for i in range(min(len(text), PILOT))])
    return float((tokens == words.unk()).float().mean())


# ---- training ------------------------------------------------------------------------------------


def spent_distilling(state: State) -> float:
    """Seconds, with those of the measurement before it."""
    distilled = state.results("distil")
    return float(distilled.get("pilot", 0)) + float(distilled.get("seconds", 0))


def planned(trained: dict[str, Any], limits: Limits, left: float) -> int:
    """Updates in all, from the pace so far; before the first slice a guess. ``left``: seconds."""
    if limits.updates is not None:
        return limits.updates
    done = int(trained.get("updates", 0))
    return done + int(max(0.0, left) / (trained["seconds"] / done)) if done else 10000


def enough(history: list[float], limits: Limits) -> str | None:
    """Why training can end, judged by accepted tokens; None if it must go on."""
    if limits.accepted is not None and history and max(history) >= limits.accepted:
        return f"{max(history):.2f} accepted tokens were asked for and reached"
    if len(history) > PATIENCE and max(history[-PATIENCE:]) < max(history[:-PATIENCE]):
        return f"no more accepted tokens in {PATIENCE} validations"
    return None


def train(job: Job, state: State, limits: Limits, fitting: Fitting) -> None:
    """Train in slices, each ended by a validation and a checkpoint, until it is enough."""
    while True:
        before: dict[str, Any] = {"updates": 0, "history": [], "checked": [], "seconds": 0.0}
        before.update(state.results("train"))
        done, history, spent = (before[name] for name in ("updates", "history", "seconds"))
        left = (limits.hours or 0.0) * 3600 - spent_distilling(state) - spent
        total, why = planned(before, limits, left), enough(history, limits)
        # A few updates more are not worth starting a process for.
        least = 0 if limits.updates is not None else FIRST_SLICE // 4
        if why is None and done and done >= total - least:
            why = TIME_OVER if limits.updates is None else "all updates are made"
        if why is not None:
            break
        until = min(total, done + max(FIRST_SLICE, total // SLICES) if done else FIRST_SLICE)
        seconds = run(job, commands.train(job, fitting, until, max(total, until)), "train.log")
        accepted = figures(job, '"valid_num_updates"')["valid_accepted_tokens"]
        trained: dict[str, Any] = {"updates": until, "seconds": spent + seconds}
        trained["history"] = [*history, accepted]
        state.note("train", done=False, checked=[*before["checked"], until], **trained)
        total = max(until, planned(trained, limits, left - seconds))
        logger.info(
            "train: update %d of about %d, %.2f accepted tokens (1 without a drafter), about %d "
            "min left", until, total, accepted,
            round((total - until) * trained["seconds"] / until / 60),
        )  # fmt: skip
    _store(job)
    state.note("train", why=why, accepted=max(history))
    logger.info("train: ended: %s", why)


def _store(job: Job) -> None:
    """The best checkpoint, without what only training needs."""
    state = load_model(job.file("training", "checkpoint_best.pt"))
    state.pop("last_optimizer_state", None)
    state.get("extra_state", {}).pop("metrics", None)
    with replacing(job.drafter, "wb") as stream:
        torch.save(state, stream)
